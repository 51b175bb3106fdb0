//go:build !race

package schema

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
)

// memorySchemas are schemas whose validation remembers things, each in another way.
var memorySchemas = []string{
	`{"uniqueItems":true}`,
	`{"items":{"type":"string"}}`,
	`{"items":{"anyOf":[{"type":"object"},{"type":"integer"}]}}`,
	`{"$defs":{"v":{"uniqueItems":true,"items":{"$ref":"#/$defs/v"},"additionalProperties":{"$ref":"#/$defs/v"}}},"$ref":"#/$defs/v"}`,
	`{"$defs":{"v":{"anyOf":[{"items":{"$ref":"#/$defs/v"},"additionalProperties":{"$ref":"#/$defs/v"}},{"items":{"$ref":"#/$defs/v"}}]}},"$ref":"#/$defs/v"}`,
	`{"items":{"$ref":"#/$defs/d0"},"$defs":{"d0":{"allOf":[{"$ref":"#/$defs/d1"},{"$ref":"#/$defs/d1"}]},"d1":{"allOf":[{"$ref":"#/$defs/d2"},{"$ref":"#/$defs/d2"}]},"d2":{"anyOf":[true]}}}`,
	`{"unevaluatedItems":{"unevaluatedProperties":{"type":"integer"},"unevaluatedItems":true},"unevaluatedProperties":true,"anyOf":[{"properties":{"a":true}},{"prefixItems":[true]}]}`,
	`{"items":{"dependentRequired":{"a":["b"],"b":["a"],"c":["a"]},"required":["a"]},"enum":[[1,2],{"a":[{"b":1}]}]}`,
	`{"items":{"enum":["a",{"a":1},[[1]]],"pattern":"^(a|b)*$"},"propertyNames":{"pattern":"^a"}}`,
	`{"$id":"https://a.example","$dynamicAnchor":"v","items":{"$dynamicRef":"#v"},"additionalProperties":{"$dynamicRef":"#v"}}`,
}

// memoryValues returns values of a size that take much memory for each byte.
func memoryValues(size int) []string {
	many := func(open string, item func(i int) string, end string) string {
		var b strings.Builder
		for i := 0; b.Len() < size; i++ {
			b.WriteString(item(i) + ",")
		}
		return open + strings.TrimSuffix(b.String(), ",") + end
	}
	numbered := func(form string) func(int) string { return func(i int) string { return fmt.Sprintf(form, i) } }
	values := []string{
		many("[", numbered("%d"), "]"), many("[", numbered("[%d]"), "]"), many("[", numbered(`{"a":%d}`), "]"), many("[", numbered("%d.5"), "]"),
		many("{", numbered(`"%x":1`), "}"), many("{", numbered(`"%x":[]`), "}"), many("{", numbered(`"\u0061%x":{}`), "}"),
	}
	for _, item := range []string{"1", "[]", "{}", `""`, `{"a":1}`, "[1]", "[1,2]", "[[[1]]]", `"text"`, "1e5", `{"a":1,"b":2,"c":3}`, `[[0],[1],[2],[3]]`,
		`{"\u0061":1,"\u0062":1,"\u0063":1}`} {
		values = append(values, many("[", func(int) string { return item }, "]"))
	}
	half := `{"v":` + many("{", numbered(`"%x":1`), "}")[:size/2]
	half = half[:strings.LastIndexByte(half, ',')] + "}}"
	deep := strings.Repeat("[", 60) + "1" + strings.Repeat("]", 60)
	return append(values, "["+half+","+half+"]", `"`+strings.Repeat(`\u0061`, size/6)+`"`, many("[", func(int) string { return deep }, "]"))
}

// validationCost is the memory that a validation may take for each byte of its value.
func validationCost() int {
	parts := limits.Parts()
	return parts[slices.IndexFunc(parts, func(p limits.Part) bool { return p.Name == limits.PartValidation })].Cost
}

// A validation allocates no more for each byte of its value than docs/limits.md says, whatever the
// value and the schema are. Smaller values do not count towards the limit.
func TestValidationAllocationsAreBounded(t *testing.T) {
	cost := validationCost()
	for _, size := range []int{freeBytes, 130 << 10, 300 << 10} {
		values := memoryValues(size)
		for _, text := range memorySchemas {
			s, err := Parse(jsontext.Value(text))
			require.NoError(t, err)
			for _, value := range values {
				raw := jsontext.Value(value)
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				_, err := s.Validate(context.Background(), StepsFor(Steps, len(raw), s.program.Parts()), raw)
				runtime.ReadMemStats(&after)
				require.True(t, err == nil || errors.Is(err, ErrSteps), err)
				if took := float64(after.TotalAlloc-before.TotalAlloc) / float64(len(raw)); took > float64(cost) {
					t.Errorf("%.1f bytes for each of %d bytes of %.60s with %s", took, len(raw), value, text)
				}
			}
		}
	}
}

// The place of an error in a large text is found without remembering the names before it.
func TestErrorAllocationsAreBounded(t *testing.T) {
	const size = 4 << 20
	var names strings.Builder
	for i := 0; names.Len() < size; i++ {
		fmt.Fprintf(&names, `"%x":1,`, i)
	}
	s, err := Parse(jsontext.Value(`{"type":"object"}`))
	require.NoError(t, err)
	for name, tt := range map[string]struct{ value, fault string }{
		"a number out of bounds after many names": {"{" + names.String() + `"z":1e999}`, "/z: " + errNumber.Error()},
		"a syntax error after many names":         {"{" + names.String() + `"z":+}`, "/z: is not valid JSON: "},
		"a number of many digits":                 {`{"z":` + strings.Repeat("7", size) + "}", "/z: " + errNumber.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			faults, err := s.Validate(context.Background(), Steps, jsontext.Value(tt.value))
			runtime.ReadMemStats(&after)
			require.NoError(t, err)
			require.Len(t, faults, 1)
			require.Contains(t, faults[0].String(), tt.fault)
			took := float64(after.TotalAlloc-before.TotalAlloc) / float64(len(tt.value))
			require.LessOrEqual(t, took, float64(validationCost()), "bytes for each byte of the text")
		})
	}
}
