package session

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// matrix lists the cells of the fault matrix (docs/session-core.md): for each
// event the states, with the era or transport where a cell has several forms.
// Each has a test named TestFault/E<n>/<state>.
var matrix = map[string][]string{
	"E1":  {"Q", "M", "R", "B", "P", "S", "W", "R/legacy-http", "R/modern-stdio", "initialize", "initialize/stream"},
	"E2":  {"Q", "M", "R", "B", "P", "S", "W", "reused-id"},
	"E3":  {"unknown", "finished", "malformed", "foreign-session", "foreign-type", "foreign-direction", "modern-http", "flood"},
	"E4":  {"Q", "M", "R", "B", "P", "S", "W", "W/wedged", "stdout-gone", "partial-line"},
	"E5":  {"Q", "M", "R", "B", "B/unwritten", "P", "S", "W", "unclassified", "read-error"},
	"E6":  {"Q", "M", "R", "B", "P", "S", "W", "woken-before-close", "woken-after-close"},
	"E7":  {"Q/legacy", "M/legacy", "R/legacy", "B/legacy", "P/legacy", "S/legacy", "W/legacy", "orphan-grace", "Q/modern", "M/modern", "R/modern", "P/modern", "S/modern", "W/modern", "B/modern"},
	"E8":  {"no-state", "B", "B/written", "B/deadline", "B/session-end", "replace", "conflict"},
	"E9":  {"Q", "M", "R", "B", "P", "S", "W", "twice"},
	"E10": {"idle", "never-initialized", "busy", "streaming", "cap", "cap-busy"},
	"E11": {"Q", "M", "R", "B", "P", "S", "W", "late", "second-signal", "new-session"},
	"E12": {"Q", "M", "R", "B", "P", "S", "W"},
	"E13": {"M", "R", "B", "P", "S", "goexit", "after-cancel", "notification"},
	"E14": {"Q", "M", "R", "R/null-id", "B", "P", "S", "W", "R/http", "other-session", "after-cancel"},
	"E15": {"frames", "consecutive", "live-id", "null-id", "wedged"},
	"E16": {"P", "coalesce", "response", "isolation", "reading-goes-on"},
	"E17": {"unknown", "late", "duplicate", "malformed", "wrong-session"},
	"E18": {"abandoned", "sends", "late-result", "slow-unwind"},
}

// A faultCell is the test of one cell. It runs in a world of its own.
type faultCell struct {
	state  string
	limits Limits
	test   func(w *world)
}

// faults are the tests of all cells; the cells of En are in fault_en_test.go.
var faults = map[string][]faultCell{
	"E1":  cellsE1,
	"E2":  cellsE2,
	"E3":  cellsE3,
	"E4":  cellsE4,
	"E5":  cellsE5,
	"E6":  cellsE6,
	"E7":  cellsE7,
	"E8":  cellsE8,
	"E9":  cellsE9,
	"E10": cellsE10,
	"E11": cellsE11,
	"E12": cellsE12,
	"E13": cellsE13,
	"E14": cellsE14,
	"E15": cellsE15,
	"E16": cellsE16,
	"E17": cellsE17,
	"E18": cellsE18,
}

func TestFault(t *testing.T) {
	for event, cells := range faults {
		t.Run(event, func(t *testing.T) {
			for _, c := range cells {
				t.Run(c.state, func(t *testing.T) { inWorld(t, c.limits, c.test) })
			}
		})
	}
}

// TestMatrixIsCovered fails when a cell has no test, or a test no cell.
func TestMatrixIsCovered(t *testing.T) {
	for event, states := range matrix {
		var tested []string
		for _, c := range faults[event] {
			require.NotNil(t, c.test, "%s.%s", event, c.state)
			tested = append(tested, c.state)
		}
		require.ElementsMatch(t, states, tested, event)
	}
	require.Len(t, faults, len(matrix))
}
