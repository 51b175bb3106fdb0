package schema

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
)

// layered returns a schema with layers of definitions, each of which refers to all of the next layer.
func layered(width, layers int) []byte {
	var b strings.Builder
	b.WriteString(`{"$ref":"#/$defs/d0_0","$defs":{`)
	for layer := range layers {
		refs := make([]string, width)
		for i := range refs {
			refs[i] = fmt.Sprintf(`{"$ref":"#/$defs/d%d_%d"}`, layer+1, i)
		}
		for i := range width {
			fmt.Fprintf(&b, `"d%d_%d":{"allOf":[%s]},`, layer, i, strings.Join(refs, ","))
		}
	}
	for i := range width {
		fmt.Fprintf(&b, `"d%d_%d":{"type":"integer"},`, layers, i)
	}
	return []byte(strings.TrimSuffix(b.String(), ",") + "}}")
}

// The verdicts of all definitions about one small value are remembered, so that it is valid within the
// steps that a small value may take.
func TestSmallValueOfSchemaWithManyDefinitions(t *testing.T) {
	for _, size := range []struct{ width, layers int }{{2, 200}, {4, 12}, {4, 100}, {10, 6}, {10, 8}, {20, 6}, {30, 4}} {
		s, err := Parse(layered(size.width, size.layers))
		require.NoError(t, err)
		v := NewValidator(limits.Limits{}.WithDefaults(), func(string) {})
		faults, err := v.Validate(t.Context(), senders(1)[0], s, 0, []byte("1"))
		require.NoError(t, err, size)
		require.Empty(t, faults, size)
		faults, err = v.Validate(t.Context(), senders(1)[0], s, 0, []byte(`"1"`))
		require.NoError(t, err, size)
		require.NotEmpty(t, faults, size)
	}
}
