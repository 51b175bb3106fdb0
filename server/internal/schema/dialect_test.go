package schema_test

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/server/internal/schema"
)

// A schema without $schema has the dialect 2020-12, in which prefixItems replaces an array of
// items.
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
			assert.Equal(t, want, s.Faults(jsontext.Value(value)) == nil, "%s of %s", value, raw)
		}
	}
}
