//go:build !race

package evaluate

import (
	"math"
	"runtime/debug"
	"runtime/metrics"
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

// An evaluation needs no more stack than it makes room for while there are few calls. A stack that grows is moved.
func TestTheStackIsLargeEnough(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // the collector shrinks stacks, and so moves them too
	p := compiled(t, recursive)
	for _, levels := range []int{fewLevels + 1, 16, 17, 33, 64} {
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

// stackAfter returns how large the stack of a new goroutine is after a value with many levels was validated.
func stackAfter(t *testing.T, schema string) (bytes uint64) {
	p, value := compiled(t, schema), nested(60)
	sample := []metrics.Sample{{Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(sample)
	before := sample[0].Value.Uint64()
	const goroutines = 64
	validated, read := make(chan struct{}), make(chan struct{})
	for range goroutines {
		go func() {
			_, _, _ = p.Run(t.Context(), value, 1<<20)
			validated <- struct{}{}
			<-read
		}()
	}
	for range goroutines {
		<-validated
	}
	metrics.Read(sample)
	close(read)
	return (sample[0].Value.Uint64() - before) / goroutines
}

// An evaluation makes that room, even if a recursive schema then has nothing to say about the levels.
func TestTheStackGrows(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	assert.Greater(t, stackAfter(t, `{"properties":{"other":{"$ref":"#"}}}`), uint64(60<<10))
}

// A schema about few levels needs no large stack, whatever the value is: many handlers would keep them while they wait.
func TestShallowSchemasNeedNoLargeStack(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	assert.LessOrEqual(t, stackAfter(t, `{"properties":{"c":{"properties":{"c":{"type":"object"}}}}}`), uint64(32<<10))
	assert.LessOrEqual(t, stackAfter(t, recursive), uint64(144<<10), "what it takes without growStack")
}

func TestLevelsOfASchema(t *testing.T) {
	for schema, levels := range map[string]int{
		`{"type":"object"}`: 0,
		`{"properties":{"a":{"items":{"anyOf":[{"type":"string"},{"additionalProperties":{"type":"null"}}]}},"b":true}}`: 3,
		`{"allOf":[{"$ref":"#/$defs/x"},{"properties":{"a":true}}],"$defs":{"x":{"items":{"prefixItems":[true]}}}}`:      2,
		recursive: math.MaxInt32,
		`{"properties":{"a":{"properties":{"b":{"$ref":"#/properties/a"}}}}}`: math.MaxInt32,
	} {
		assert.Equal(t, levels, compiled(t, schema).levels, schema)
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
