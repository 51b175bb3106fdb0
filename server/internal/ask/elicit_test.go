package ask

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
)

func TestDecodeRoots(t *testing.T) {
	for text, want := range map[string]string{
		`{}`: "roots must be an array", `{"roots":null}`: "roots must be an array", `{"roots":{}}`: "roots must be an array",
		`{"roots":"x"}`: "roots must be an array", `{"roots":[{"uri":"a"},{}]}`: "a root has a URI", `{"roots":[null]}`: "a root has a URI",
		`{"roots":[{"uri":1}]}`: "/roots/0/uri",
	} {
		_, err := decodeRoots(jsontext.Value(text))
		require.ErrorContains(t, err, want, text)
	}
	roots, err := decodeRoots(jsontext.Value(`{"roots":[]}`))
	require.NoError(t, err)
	require.Equal(t, []mcp.Root{}, roots)
}
