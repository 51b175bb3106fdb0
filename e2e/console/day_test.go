package console

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/memory"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// What a page costs that is left open for a day, at a frame a second: 86400 of them.
const (
	// perFrame bounds how the page may grow with each frame, in bytes: some 5 MiB a day.
	perFrame = 60
	// maxUpdate bounds a frame in bytes, whatever the server does; quietUpdate one of a
	// server with nothing to do.
	maxUpdate, quietUpdate = 96 << 10, 4 << 10
)

// A weight is the memory of a page in the browser after a collection of garbage.
type weight struct {
	Elements         int64 // of the document
	Nodes, Listeners int64 // including those of nodes that were removed from the document
	Heap             int64 // bytes
}

func (p *tab) weigh(t *testing.T) (w weight) {
	t.Helper()
	p.do(t, command(heapprofiler.CollectGarbage, cdp.Empty{}))
	usage, err := chromedp.Run(p.ctx, value(runtime.GetHeapUsage, cdp.Empty{}))
	if err != nil {
		t.Fatal(err)
	}
	counters, err := chromedp.Run(p.ctx, value(memory.GetDOMCounters, cdp.Empty{}))
	if err != nil {
		t.Fatal(err)
	}
	return weight{
		Elements: eval[int64](t, p, "document.querySelectorAll('*').length"),
		Nodes:    counters.Nodes, Listeners: counters.JsEventListeners, Heap: int64(usage.UsedSize),
	}
}

// The page does not grow, whatever a server sends and for however long.
func TestPageDoesNotGrow(t *testing.T) {
	w := newWorld(t)
	p := open(t, w)
	p.do(t, command(cdppage.AddScriptToEvaluateOnNewDocument, cdppage.AddScriptToEvaluateOnNewDocumentParams{Source: fakeSource}),
		chromedp.Navigate(w.Admin+"/"))
	// The engine itself learns for some hundreds of frames.
	const from, to = 700, 1500
	eval[bool](t, p, fmt.Sprintf("pushUpTo(%d)", from))
	before := p.weigh(t)
	if before.Elements < 1000 {
		t.Fatalf("the page has %d elements: it does not show the frames", before.Elements)
	}
	eval[bool](t, p, fmt.Sprintf("pushUpTo(%d)", to))
	after := p.weigh(t)
	t.Logf("after %d frames: %+v; after %d: %+v", from, before, to, after)
	if after.Elements > before.Elements || after.Nodes > before.Nodes+before.Nodes/50 || after.Listeners > before.Listeners {
		t.Errorf("the page grows: from %+v to %+v", before, after)
	}
	if grown := after.Heap - before.Heap; grown > (to-from)*perFrame {
		t.Errorf("the page grows by %d bytes with each frame", grown/(to-from))
	}
	const points = `Math.max(...[...document.querySelectorAll('.spark polyline')].map((n) => n.getAttribute('points').split(' ').length))`
	if n := eval[int](t, p, points); n < 60 || n > 120 {
		t.Errorf("a curve has %d points after %d frames", n, to)
	}
	if n := p.sent("/debug/traces"); n > 20 {
		t.Errorf("%d requests for the list: that is polling", n)
	}
	p.clean(t)
}

// An update of a busy server is bounded. An update of an idle server is small, whatever it has
// done before.
func TestUpdatesAreBounded(t *testing.T) {
	w := newWorld(t)
	p := open(t, w)
	quiet := p.largest(t, 0)
	begin := p.came()
	for i := range 100 {
		w.session(t, caller{fmt.Sprintf("client-%d", i), "1.2.3"})
		w.begin(t, caller{fmt.Sprintf("agent-%d", i), "1.2.3"}, fmt.Sprintf("a request with an id of its own, %d", i), "export_ledger")
	}
	p.await(t, `document.getElementById('n-inflight').textContent.includes('more requests')`)
	p.await(t, `document.getElementById('n-sessions').textContent.includes('more')`)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for n := range 500 {
				tool := []string{"get_order", "charge_card", "no_such_tool", "render_invoice"}[n%4]
				_ = w.call(t.Context(), caller{fmt.Sprintf("agent-%d-%d", i, n), "9"}, n, tool, "fail") // its end is on the page
			}
		})
	}
	wg.Wait()
	busy := p.largest(t, begin)
	w.release()
	p.awaitText(t, "#inflight tbody tr", "Nothing is in flight.")
	for _, s := range w.opened {
		w.end(t, s)
	}
	p.awaitText(t, "#sessions tbody tr", "No session is open.")
	again := p.largest(t, p.came()+1) // the next one may have begun before
	t.Logf("the largest frame: %d bytes at the start, %d at work, %d afterwards", quiet, busy, again)
	if busy > maxUpdate || quiet > quietUpdate || again > quietUpdate {
		t.Errorf("frames of %d bytes at the start, %d at work, %d afterwards: want at most %d, and %d at rest", quiet, busy, again, maxUpdate, quietUpdate)
	}
	p.clean(t)
}

// came counts the live frames that have come.
func (p *tab) came() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.updates)
}

// largest waits for some more frames and returns the size of the largest since from.
func (p *tab) largest(t *testing.T, from int) int {
	t.Helper()
	now := p.came()
	for end := time.Now().Add(patience); p.came() < now+3; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no frames come")
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Max(p.updates[from:])
}
