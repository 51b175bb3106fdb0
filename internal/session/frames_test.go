package session

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/resume"
	"github.com/vitrine-mcp/vitrine/internal/stream"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/store"
)

// A hoardingStore keeps what it is given, and says that it does not.
type hoardingStore struct {
	*resume.Memory
	fails bool
	kept  []store.Event
}

func (s *hoardingStore) Append(ctx context.Context, session string, e store.Event) error {
	if !strings.Contains(string(e.Data), `"result"`) {
		return s.Memory.Append(ctx, session, e)
	}
	s.kept = append(s.kept, e) // as a queue would that is written later
	if s.fails {
		return errors.New("too late")
	}
	return s.Memory.Append(ctx, session, e)
}

// The buffer of an answer that a store was given is not used for another answer, whatever
// the store has said.
func TestStoredFramesAreNotUsedAgain(t *testing.T) {
	for n, fails := range map[int]bool{100: false, 101: true, 2 * stream.LargeFrame: false, 2*stream.LargeFrame + 1: true} {
		inWorld(t, limits.Limits{}, func(w *world) {
			store := &hoardingStore{Memory: resume.NewMemory(), fails: fails}
			w.core = New(Config{Dispatcher: w, Events: store, Limits: w.core.limits})
			g, s := w.gate("work", false), w.openAs("session", mcp.Version20251125)
			for i, letter := range []string{"a", "b", "c", "d"} {
				h, x := w.streaming(s, g, string(rune('1'+i)))
				h.finish(strings.Repeat(letter, n))
				require.True(w.t, x.ended())
			}
			require.Len(w.t, store.kept, 4)
			for i, letter := range []string{"a", "b", "c", "d"} {
				require.GreaterOrEqual(w.t, strings.Count(string(store.kept[i].Data), letter), n)
			}
		})
	}
}

// The buffer of an answer may be used for the next one; each client gets its own.
func TestFramesAreUsedAgain(t *testing.T) {
	for _, n := range []int{10, 1000, 2 * stream.LargeFrame} {
		inWorld(t, limits.Limits{}, func(w *world) {
			g := w.gate("work", false)
			for i := range 20 {
				text := strings.Repeat(string(rune('a'+i)), n)
				x := w.post(nil, modernFrame("1", "work"))
				g.next().finish(text)
				require.Equal(w.t, []string{resultFrame("1", text)}, x.frames())
			}
		})
	}
}

// An error has a frame of its own, and the buffer of the result that could not be encoded
// is as good as any other.
func TestFrameOfAnError(t *testing.T) {
	inWorld(t, limits.Limits{}, func(w *world) {
		g := w.gate("work", false)
		for range 3 {
			x := w.post(nil, modernFrame("1", "work"))
			g.next().fail(errors.New("secret"))
			require.Equal(w.t, []string{internalError("1")}, x.frames())
			x = w.post(nil, modernFrame("2", "work"))
			g.next().finish("done")
			require.Equal(w.t, []string{resultFrame("2", "done")}, x.frames())
		}
	})
}

// What is put into one pool is taken out of it again, of whatever size the answers are.
func TestBuffersAreFoundAgain(t *testing.T) {
	for _, n := range []int{0, 1000, stream.LargeFrame * 8 / 9, 15_000, stream.LargeFrame - 1, stream.LargeFrame, 2 * stream.LargeFrame} {
		var f frames
		found := false
		for range 100 { // under the race detector a pool forgets some
			buf := f.get(n)
			f.put(buf, append(*buf, make([]byte, n)...))
			again := f.get(n)
			found = found || buf == again
		}
		require.True(t, found, "%d bytes", n)
	}
}
