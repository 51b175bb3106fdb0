package schema

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A value with many faults costs little memory, whatever the schema has to say about each of them.
func TestWordsOfFaultsEndWhereTheMessageIsFull(t *testing.T) {
	var values []string
	for i := range 20_000 {
		values = append(values, fmt.Sprintf(`"v%06d"`, i))
	}
	enum := `{"enum":[` + strings.Join(values, ",") + `]}`
	long := strings.Repeat("é", 100_000)
	reference := `{"$ref":"#/$defs/x"}`
	alternatives := `{"anyOf":[` + reference + strings.Repeat(","+reference, 31) + `]}`
	for _, c := range []struct{ name, definition, items, item, message string }{
		{"enum", enum, reference, `"x"`, `must be one of "v000000", "v000001", `},
		{"enum in alternatives", enum, alternatives, `"x"`, `matches none of the alternatives: must be one of "v000000", "v000001", `},
		{"const", `{"const":"` + long + `"}`, alternatives, `"x"`, `matches none of the alternatives: must be "éé`},
		{"pattern", `{"pattern":"^` + long + `$"}`, alternatives, `"x"`, `matches none of the alternatives: must match the pattern ^éé`},
		{"required", `{"required":["` + long + `"]}`, alternatives, `{}`, `matches none of the alternatives: missing required property "éé`},
		{"dependentRequired", `{"dependentRequired":{"x":["` + long + `"]}}`, alternatives, `{"x":1}`, `matches none of the alternatives: missing property "éé`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := Parse([]byte(`{"items":` + c.items + `,"$defs":{"x":` + c.definition + `}}`))
			require.NoError(t, err)
			value := []byte("[" + c.item + strings.Repeat(","+c.item, 32) + "]")
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			faults, err := s.Validate(t.Context(), Steps, value)
			runtime.ReadMemStats(&after)
			require.NoError(t, err)
			require.Len(t, faults, maxFaults+1)
			require.True(t, strings.HasPrefix(faults[0].Message, c.message), faults[0].Message)
			require.Equal(t, maxMessage, len([]rune(faults[0].Message)))
			t.Logf("%d KiB", (after.TotalAlloc-before.TotalAlloc)>>10)
			require.LessOrEqual(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))
		})
	}
}

// The reasons of the reasons of a fault are written once, and not once more for each alternative around them.
func TestWordsOfDeepAlternativesAreWrittenOnce(t *testing.T) {
	s, err := Parse([]byte(`{"$ref":"#/$defs/v","$defs":{"v":{"contains":{"type":"object","required":["a"]},"minContains":2,` +
		`"items":{"anyOf":[{"$ref":"#/$defs/v"},{"type":"integer"}]}}}}`))
	require.NoError(t, err)
	item := strings.Repeat("[", 8) + `-1.5,{"b":"b"},"a"` + strings.Repeat("]", 8)
	value := repeated("[", same(item), "]", 4<<10)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	faults, err := s.Validate(t.Context(), Steps, value)
	runtime.ReadMemStats(&after)
	require.NoError(t, err)
	require.Len(t, faults, maxFaults+1)
	t.Logf("%d KiB", (after.TotalAlloc-before.TotalAlloc)>>10)
	require.LessOrEqual(t, after.TotalAlloc-before.TotalAlloc, uint64(900<<10))
}
