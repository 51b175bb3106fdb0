package schema

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// leastSteps returns the steps that a validation takes.
func leastSteps(t *testing.T, schema, value string) int {
	t.Helper()
	s, err := Parse([]byte(schema))
	require.NoError(t, err)
	for steps := 1; ; steps++ {
		if _, err := s.Validate(t.Context(), steps, []byte(value)); err == nil {
			return steps
		}
		require.Less(t, steps, 1<<16)
	}
}

// Schemas that only refer to others take no steps.
func TestReferencesTakeNoSteps(t *testing.T) {
	value := "[" + strings.Repeat("1,", 99) + "1]"
	plain := leastSteps(t, `{"items":{"type":"integer"}}`, value)
	for name, schema := range map[string]string{
		"one":   `{"items":{"$ref":"#/$defs/a"},"$defs":{"a":{"type":"integer"}}}`,
		"three": `{"$ref":"#/$defs/c","$defs":{"a":{"type":"integer"},"b":{"$ref":"#/$defs/a"},"c":{"items":{"$ref":"#/$defs/b"}}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, plain, leastSteps(t, schema, value))
		})
	}
}

// What a schema says about the parts of values takes several steps for each value, however few parts it has: so many
// small values cannot take more time than they have steps for.
func TestArraysAndObjectsTakeSteps(t *testing.T) {
	const count, least = 100, 8
	for name, c := range map[string]struct{ schema, value string }{
		"arrays":  {`{"items":{"items":{"type":"integer"}}}`, `[]`},
		"objects": {`{"items":{"additionalProperties":{"type":"integer"}}}`, `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			value := "[" + strings.Repeat(c.value+",", count-1) + c.value + "]"
			require.Greater(t, leastSteps(t, c.schema, value), least*count)
		})
	}
}
