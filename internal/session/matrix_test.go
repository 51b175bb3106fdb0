package session

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// matrix reads the cells of the fault matrix from docs/session-core.md: for each
// event the states, with the era or transport where a cell has several forms. Each
// has a test named TestFault/E<n>/<state>.
func matrix(t *testing.T) map[string][]string {
	t.Helper()
	cells := map[string][]string{}
	event := ""
	for _, row := range pageRows(t, "Events") {
		if name, found := strings.CutPrefix(row, "### "); found {
			event, _, _ = strings.Cut(name, ".")
			continue
		}
		cells[event] = append(cells[event], row)
	}
	return cells
}

// pageRows returns the headings of a chapter of docs/session-core.md and the first
// column of its tables, in order.
func pageRows(t *testing.T, chapter string) (rows []string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/session-core.md")
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(page), "\n## "+chapter+"\n")
	require.True(t, found, "docs/session-core.md has no chapter %q", chapter)
	rest, _, _ = strings.Cut(rest, "\n## ")
	lines := strings.Split(rest, "\n")
	for i, line := range lines {
		switch {
		case strings.HasPrefix(line, "### "):
			rows = append(rows, line)
		case strings.HasPrefix(line, "| ") && !strings.HasPrefix(lines[i+1], "|---"):
			rows = append(rows, strings.Trim(strings.Split(line, "|")[1], " `"))
		}
	}
	return rows
}

// A faultCell is the test of one cell. It runs in a world of its own.
type faultCell struct {
	state  string
	limits limits.Limits
	test   func(w *world)
}

// faults are the tests of all cells. The files fault_*_test.go have them, named after the
// event; cellsE1 and the like name the table of docs/session-core.md.
var faults = map[string][]faultCell{
	"E1":  slices.Concat(cellsE1, batchE1, listenE1, storedE1, earlyE1),
	"E2":  cellsE2,
	"E3":  cellsE3,
	"E4":  slices.Concat(cellsE4, batchE4, listenE4, earlyE4),
	"E5":  slices.Concat(cellsE5, batchE5, listenE5),
	"E6":  slices.Concat(cellsE6, listenE6, earlyE6),
	"E7":  slices.Concat(cellsE7, batchE7, listenE7, storedE7, resumedE7, polledE7, earlyE7),
	"E8":  append(cellsE8, storedE8...),
	"E9":  slices.Concat(cellsE9, batchE9, storedE9, earlyE9),
	"E10": append(cellsE10, storedE10...),
	"E11": slices.Concat(cellsE11, batchE11, listenE11, storedE11),
	"E12": slices.Concat(cellsE12, batchE12, listenE12, earlyE12),
	"E13": slices.Concat(cellsE13, listenE13),
	"E14": slices.Concat(cellsE14, batchE14, listenE14),
	"E15": append(cellsE15, batchE15...),
	"E16": slices.Concat(cellsE16, budgetE16, listenE16),
	"E17": cellsE17,
	"E18": cellsE18,
	"E20": cellsE20, "E22": cellsE22,
	"E21": cellsE21,
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
	cells := matrix(t)
	require.Len(t, faults, len(cells))
	for event, states := range cells {
		var tested []string
		for _, c := range faults[event] {
			require.NotNil(t, c.test, "%s.%s", event, c.state)
			tested = append(tested, c.state)
		}
		require.ElementsMatch(t, states, tested, event)
	}
}

// TestVocabulariesPage holds the vocabularies of docs/session-core.md against the code.
func TestVocabulariesPage(t *testing.T) {
	want := []string{"### Causes of a cancellation"}
	want = appendAll(want, mcp.Causes())
	want = appendAll(append(want, "### Dropped answers"), mcp.ResponseDropReasons())
	want = appendAll(append(want, "### Expired answers"), mcp.ExpireReasons())
	own := slices.DeleteFunc(mcp.NotificationDropReasons(), func(r mcp.DropReason) bool {
		return slices.Contains(mcp.ResponseDropReasons(), r)
	})
	want = appendAll(append(want, "### Dropped notifications"), own)
	want = appendAll(append(want, "### Ends of a subscription"), mcp.SubscriptionEnds())
	want = appendAll(append(want, "### Rejected requests"), mcp.RejectReasons())
	want = append(want, "### Ignored messages", "cancel", "response", "frame")
	want = appendAll(append(want, "### Refused HTTP exchanges"), mcp.RefuseReasons())
	require.Equal(t, want, pageRows(t, "Vocabularies"))

	page, err := os.ReadFile("../../docs/session-core.md")
	require.NoError(t, err)
	for _, kind := range []mcp.IgnoredKind{mcp.IgnoredCancel, mcp.IgnoredResponse, mcp.IgnoredFrame} {
		var values []string
		for _, reason := range mcp.IgnoreReasons(kind) {
			values = append(values, "`"+string(reason)+"`")
		}
		require.Contains(t, string(page), "| `"+string(kind)+"` | "+strings.Join(values, ", ")+" |")
	}
}

func appendAll[T ~string](to []string, values []T) []string {
	for _, v := range values {
		to = append(to, string(v))
	}
	return to
}

// TestVocabularyIndexes holds the positions of causes and reasons in the counters
// against the published order.
func TestVocabularyIndexes(t *testing.T) {
	require.Len(t, mcp.Causes(), numCauses)
	for i, c := range mcp.Causes() {
		require.Equal(t, i, indexOf(causes, c), c)
	}
	require.Len(t, mcp.ResponseDropReasons(), numDropReasons)
	for i, r := range mcp.ResponseDropReasons() {
		require.Equal(t, i, indexOf(dropReasons, r), r)
	}
}
