package session

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// A livelySink counts its signs of life.
type livelySink struct {
	*scriptSink
	signs *atomic.Int32
}

func (k livelySink) KeepAlive() error {
	k.signs.Add(1)
	return nil
}

// lively posts a request on an exchange that shows signs of life.
func (w *world) lively(frame string) (x *exchange, signs *atomic.Int32) {
	w.t.Helper()
	x, signs = w.newExchange(1, mcp.Modern), new(atomic.Int32)
	x.pump(livelySink{x.sink, signs})
	w.postOn(x, nil, frame)
	w.settle()
	return x, signs
}

// A writer that waits for nothing but a quick answer does so only as long as one can be
// expected, whatever the request is doing meanwhile.
func TestQuickAnswer(t *testing.T) {
	test := func(name string, f func(w *world)) { t.Run(name, func(t *testing.T) { inWorld(t, Limits{}, f) }) }
	test("in the handler", func(w *world) {
		g := w.gate("work", false)
		x, signs := w.lively(modernFrame("1", "work"))
		h := g.next()
		time.Sleep(2 * keepAlive)
		w.settle()
		require.EqualValues(w.t, 2, signs.Load())
		h.finish("done")
		require.Len(w.t, x.frames(), 1)
	})
	test("after the settle", func(w *world) {
		at := w.stopAt(pointAfterSettle, "work")
		g := w.gate("work", false)
		x, signs := w.lively(modernFrame("1", "work"))
		g.next().finish("done") // and its result takes long to be encoded
		at.await()
		time.Sleep(2 * keepAlive)
		w.settle()
		require.EqualValues(w.t, 2, signs.Load())
		at.release()
		require.Len(w.t, x.frames(), 1)
	})
	test("acknowledged at once", func(w *world) {
		g := w.subscriber("listen")
		x, signs := w.lively(modernFrame("1", "listen"))
		h := g.next()
		require.Equal(w.t, []string{ackFrame}, x.frames())
		time.Sleep(2 * keepAlive)
		w.settle()
		require.EqualValues(w.t, 2, signs.Load())
		h.finish("bye")
		require.True(w.t, x.ended())
	})
}
