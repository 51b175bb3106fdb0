//go:build !race

package wire

import "testing"

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
