package session

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// A hoardingStore keeps what it is given, and says that it does not.
type hoardingStore struct {
	*MemoryEvents
	fails bool
	kept  []Event
}

func (s *hoardingStore) Append(ctx context.Context, session string, e Event) error {
	if !strings.Contains(string(e.Data), `"result"`) {
		return s.MemoryEvents.Append(ctx, session, e)
	}
	s.kept = append(s.kept, e) // as a queue would that is written later
	if s.fails {
		return errors.New("too late")
	}
	return s.MemoryEvents.Append(ctx, session, e)
}

// The buffer of an answer that a store was given is not used for another answer, whatever
// the store has said.
func TestStoredFramesAreNotUsedAgain(t *testing.T) {
	for _, fails := range []bool{false, true} {
		inWorld(t, Limits{}, func(w *world) {
			store := &hoardingStore{MemoryEvents: NewMemoryEvents(), fails: fails}
			w.core = New(Config{Dispatcher: w, Events: store, Limits: w.core.limits})
			g, s := w.gate("work", false), w.openAs("session", mcp.Version20251125)
			for i, letter := range []string{"a", "b", "c", "d"} {
				h, x := w.streaming(s, g, string(rune('1'+i)))
				h.finish(strings.Repeat(letter, 2*largeFrame))
				require.True(w.t, x.ended())
			}
			require.Len(w.t, store.kept, 4)
			for i, letter := range []string{"a", "b", "c", "d"} {
				require.GreaterOrEqual(w.t, strings.Count(string(store.kept[i].Data), letter), 2*largeFrame)
			}
		})
	}
}

// The buffer of a large answer may be used for the next one; each client gets its own.
func TestLargeFrames(t *testing.T) {
	inWorld(t, Limits{}, func(w *world) {
		g := w.gate("work", false)
		for i := range 20 {
			text := strings.Repeat(string(rune('a'+i)), 2*largeFrame)
			x := w.post(nil, modernFrame("1", "work"))
			g.next().finish(text)
			require.Equal(w.t, []string{resultFrame("1", text)}, x.frames())
		}
	})
}
