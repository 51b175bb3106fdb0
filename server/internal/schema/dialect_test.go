package schema_test

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/server/internal/schema"
)

// A schema that does not say what it is written in is of 2020-12, where prefixItems has
// the place that an array of items had before.
func TestDefaultDialect(t *testing.T) {
	const tuple = `"prefixItems":[{"type":"string"}],"items":false`
	for raw, valid := range map[string]map[string]bool{
		`{` + tuple + `}`: {`["a"]`: true, `[1]`: false, `["a","b"]`: false},
		`{"$schema":"https://json-schema.org/draft/2020-12/schema",` + tuple + `}`: {`["a"]`: true, `[1]`: false, `["a","b"]`: false},
		`{"$schema":"https://json-schema.org/draft/2019-09/schema",` + tuple + `}`: {`[]`: true, `["a"]`: false},
	} {
		s, err := schema.Parse(jsontext.Value(raw))
		require.NoError(t, err)
		for value, want := range valid {
			assert.Equal(t, want, s.Validate(jsontext.Value(value)) == nil, "%s of %s", value, raw)
		}
	}
}
