package streamable_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/streamable"
)

// The id of a session has 26 of 32 letters, which is 130 bits, all of them visible ASCII. No
// position is constant or counts. A rule of internal/archtest checks the source of randomness.
func TestSessionIDsCannotBeGuessed(t *testing.T) {
	const sessions, letters = 512, 32
	e := newEndpoint(t, http1, limits.Limits{MaxSessions: sessions}, streamable.Config{})
	seen, places := map[header]bool{}, make([]map[rune]int, 26)
	for range sessions {
		sid := e.session()
		require.Regexp(t, `^Mcp-Session-Id: [A-Z2-7]{26}$`, sid)
		require.False(t, seen[sid], sid)
		seen[sid] = true
		for i, c := range sid[len("Mcp-Session-Id: "):] {
			if places[i] == nil {
				places[i] = map[rune]int{}
			}
			places[i][c]++
		}
	}
	for i, found := range places {
		require.Greater(t, len(found), letters-4, "the letters at place %d are too few", i)
		for c, n := range found { // 16 are to be expected
			require.Less(t, n, 64, "%q stands at place %d too often", c, i)
		}
	}
	e.Conserved()
}
