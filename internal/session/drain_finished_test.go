package session

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
)

// A slowObserver takes its time over the end of a request.
type slowObserver struct {
	NopObserver
	gate chan struct{}
}

func (o slowObserver) Finished(Work) { <-o.gate }

// What is told of a request is told before Shutdown returns, even if it was over for
// everybody else when the drain began: whoever flushes telemetry then has all of it.
func TestShutdownWaitsForTheObserver(t *testing.T) {
	inWorld(t, limits.Limits{}, func(w *world) {
		o := slowObserver{gate: make(chan struct{})}
		w.core = New(Config{Dispatcher: w, Observer: o, Limits: w.core.limits})
		g := w.gate("work", false)
		x := w.post(nil, modernFrame("1", "work"))
		g.next().finish("done")
		require.Equal(w.t, []string{resultFrame("1", "done")}, x.frames())

		over := make(chan error, 1)
		go func() { over <- w.core.Shutdown(context.Background()) }()
		synctest.Wait()
		require.Empty(w.t, over)
		close(o.gate)
		synctest.Wait()
		require.NoError(w.t, <-over)
	})
}
