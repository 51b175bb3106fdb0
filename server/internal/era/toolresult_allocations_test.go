//go:build !race

package era

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Not under the race detector, with which a sync.Pool forgets on purpose.

// Encoding the usual result costs no allocation if dst is large enough, and one for structured
// content.
func TestToolResultAllocations(t *testing.T) {
	dst := make([]byte, 0, 1024)
	for name, most := range map[string]float64{"text": 0, "structured": 1} {
		result := usualResults()[name]
		require.LessOrEqual(t, testing.AllocsPerRun(1000, func() {
			if _, ok := appendToolResult(dst, result); !ok {
				t.Error("not by hand")
			}
		}), most, name)
	}
}
