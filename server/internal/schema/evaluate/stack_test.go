//go:build !race

package evaluate

import (
	"strings"
	"testing"
	"unsafe"

	jsv "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Not under the race detector, with which calls take more of the stack.

// recursive is a schema that has several calls for each level of a value.
const recursive = `{"not":{"required":["z"]},"if":{"required":["a"]},"then":{"properties":{"a":{"$ref":"#"}}},
	"else":{"additionalProperties":{"$ref":"#"}},"allOf":[{"items":{"$ref":"#"}},{"items":{"$ref":"#"}}]}`

func compiled(tb testing.TB, text string) *Program {
	raw, err := jsv.UnmarshalJSON(strings.NewReader(text))
	require.NoError(tb, err)
	c := jsv.NewCompiler()
	require.NoError(tb, c.AddResource("schema", raw))
	p, err := Compile(c, "schema", raw)
	require.NoError(tb, err)
	return p
}

// nested returns a value with so many levels.
func nested(levels int) []byte {
	return []byte(strings.Repeat(`{"c":`, levels) + "1" + strings.Repeat("}", levels))
}

// An evaluation needs no more stack than it makes room for at once. A stack that grows is moved.
func TestTheStackGrowsOnce(t *testing.T) {
	p := compiled(t, recursive)
	for _, levels := range []int{fewLevels + 1, manyLevels, manyLevels + 1, 64} {
		var before, after uintptr
		done := make(chan struct{})
		go func() {
			defer close(done)
			var here byte
			growStack(levels)
			before = uintptr(unsafe.Pointer(&here))
			_, _, _ = p.Run(t.Context(), nested(levels), 1<<20)
			after = uintptr(unsafe.Pointer(&here))
		}()
		<-done
		assert.Equal(t, before, after, "%d levels", levels)
	}
}

// BenchmarkNested is about values with many levels, each in a goroutine of its own, as calls are.
func BenchmarkNested(b *testing.B) {
	p, value := compiled(b, recursive), nested(60)
	b.ReportAllocs()
	for b.Loop() {
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _, _ = p.Run(b.Context(), value, 1<<20)
		}()
		<-done
	}
}
