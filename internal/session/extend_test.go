package session

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/resume"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// The time that a store takes is not the client's, also if the store then fails and the
// stream goes on without it.
func TestWriteAfterFailedStore(t *testing.T) {
	inWorld(t, limits.Limits{WriteTimeout: 10 * time.Second, EventTimeout: 9500 * time.Millisecond}, func(w *world) {
		store := w.remember()
		store.on(resume.OpAppend, func() error {
			time.Sleep(w.core.limits.EventTimeout)
			return errors.New("too late")
		})
		g, s := w.gate("work", false), w.openAs("session", mcp.Version20251125)
		x := w.post(s, callFrame("1", "work"))
		x.sink.on(afterASecond)
		h := g.next()
		require.NoError(w.t, h.note(1))
		time.Sleep(w.core.limits.EventTimeout + time.Second)
		h.finish("done")
		require.Equal(w.t, []string{noteFrame(1), resultFrame("1", "done")}, x.frames())
	})
}
