//go:build !race

package wire

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// The budget of decoding. Not under the race detector, because sync.Pool then drops values on
// purpose.
func TestDecodeAllocations(t *testing.T) {
	for _, tt := range []struct {
		name, frame string
		max         float64
	}{
		{"modern call", modernCall, 2}, // the id and the name
		{"traced call", tracedCall, 6}, // two for a string id, the name, three of tracing
		{"ping", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, 0},
		{"response", `{"jsonrpc":"2.0","id":1,"result":{"a":1}}`, 0},
	} {
		frame := []byte(tt.frame)
		got := testing.AllocsPerRun(1000, func() {
			if _, err := Decode(frame, Limits{}); err != nil {
				t.Fatal(err)
			}
		})
		if got > tt.max {
			t.Errorf("%s: %v allocations, want at most %v", tt.name, got, tt.max)
		}
	}
}

// The names of an object are not remembered once more. That would take 13 times the memory of this text.
func TestUnmarshalAllocations(t *testing.T) {
	var object bytes.Buffer
	object.WriteString(`{"content":{"x":0`)
	for i := range 50_000 {
		fmt.Fprintf(&object, `,"x-%d":0`, i)
	}
	object.WriteString(`}}`)
	var into struct {
		Content jsontext.Value `json:"content"`
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := Unmarshal(object.Bytes(), &into)
	runtime.ReadMemStats(&after)
	if err != nil {
		t.Fatal(err)
	}
	if took := float64(after.TotalAlloc-before.TotalAlloc) / float64(object.Len()); took > 3 {
		t.Errorf("%.1f times the text", took)
	}
}
