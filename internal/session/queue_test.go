package session

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A request loses its place in the queue between taking it and being in the tables. It is answered
// once, after that.
func TestRequestIsDisplacedBeforeItIsInTheTables(t *testing.T) {
	for _, how := range []string{"modern", "legacy", "byte stream", "byte stream with a quick writer"} {
		t.Run(how, func(t *testing.T) {
			inWorld(t, limits.Limits{MaxInFlightTotal: 1, MaxQueue: 4}, func(w *world) {
				w.gate("work", false)
				w.postFrom(from("192.0.2.9"), nil, modernFrame("1", "work"))
				w.settle()
				for i := range 3 {
					w.postFrom(from("192.0.2.3"), nil, modernFrame(fmt.Sprint(i), "work"))
					w.settle()
				}
				var greedy func(id string)
				switch how {
				case "modern":
					greedy = func(id string) { w.postFrom(from(greedyAddr), nil, modernFrame(id, "work")) }
				case "legacy":
					s, _, err := w.core.Open(from(greedyAddr), "session")
					require.Nil(t, err)
					s.Initialize(&Peer{Version: mcp.Version20251125})
					s.Initialized()
					greedy = func(id string) { w.postFrom(from(greedyAddr), s, callFrame(id, "work")) }
				default:
					p := w.connect(true)
					greedy = func(id string) { p.call(id, "work") }
				}
				greedy("1")
				w.settle()
				require.Equal(t, 4, w.core.waiting.Len())
				settled := false
				w.core.hooks = func(p point, r *Request) {
					// The greedy caller's second request takes the place of one of 192.0.2.3, and two
					// newcomers take places, of which it loses its own before it is in the tables.
					if p != pointAfterSettle || settled {
						return
					}
					settled = true
					for i := range 2 {
						w.postFrom(from(fmt.Sprint("192.0.2.10", i)), nil, modernFrame("1", "work"))
					}
					if how == "byte stream with a quick writer" {
						w.settle()
					}
				}
				greedy("2")
				w.settle()
				require.True(t, settled)
				require.Equal(t, uint64(3), w.core.Snapshot().Counters.Displaced)
			})
		})
	}
}
