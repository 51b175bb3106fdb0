//go:build !race

package evaluate

import (
	"math"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
)

// Not under the race detector, with which calls take more of the stack.

// recursive is a schema that has several calls for each level of a value.
const recursive = `{"not":{"required":["z"]},"if":{"required":["a"]},"then":{"properties":{"a":{"$ref":"#"}}},
	"else":{"additionalProperties":{"$ref":"#"}},"allOf":[{"items":{"$ref":"#"}},{"items":{"$ref":"#"}}]}`

// nested returns a value with so many levels.
func nested(levels int) []byte {
	return []byte(strings.Repeat(`{"c":`, levels) + "1" + strings.Repeat("}", levels))
}

// stopCollector is for tests of stacks: the collector shrinks them, and so moves them too.
func stopCollector(t *testing.T) {
	percent := debug.SetGCPercent(-1)
	t.Cleanup(func() { debug.SetGCPercent(percent) })
	runtime.GC() // ends what runs of it
}

// An evaluation needs no more stack than it makes room for while there are few calls. A stack that grows is moved.
func TestTheStackIsLargeEnough(t *testing.T) {
	stopCollector(t)
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

// room returns how many KiB more calls can take before the stack grows: it is moved then, and what is at base with it.
func room(base *byte, first uintptr, kib int) int {
	var frame [1 << 10]byte
	if uintptr(unsafe.Pointer(base)) != first {
		return kib
	}
	frame[kib%len(frame)] = 1
	return room(base, first, kib+1) + int(frame[(kib+1)%len(frame)])
}

// stackAfter returns how many KiB of stack a new goroutine still has after it has validated a value with many levels.
func stackAfter(t *testing.T, schema string) int {
	p, value := compiled(t, schema), nested(60)
	kib := make(chan int)
	go func() {
		_, _, _ = p.Run(t.Context(), value, 1<<20)
		var here byte
		kib <- room(&here, uintptr(unsafe.Pointer(&here)), 0)
	}()
	return <-kib
}

// An evaluation makes that room, even if a recursive schema then has nothing to say about the levels.
func TestTheStackGrows(t *testing.T) {
	stopCollector(t)
	assert.Greater(t, stackAfter(t, `{"properties":{"other":{"$ref":"#"}}}`), 56)
}

// A schema about few levels needs no large stack, whatever the value is: many handlers would keep them while they wait.
func TestShallowSchemasNeedNoLargeStack(t *testing.T) {
	stopCollector(t)
	assert.LessOrEqual(t, stackAfter(t, `{"properties":{"c":{"properties":{"c":{"type":"object"}}}}}`), 32)
	assert.LessOrEqual(t, stackAfter(t, recursive), 144, "what it takes without growStack")
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
