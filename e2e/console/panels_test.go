package console

import (
	"fmt"
	"testing"
)

// hold ends the stream of a page, and returns with a frame in the page's variable frame and the module panels.js in the
// variable panels. show shows a frame that is so many seconds younger, with some fields of another one.
func (p *tab) hold(t *testing.T) {
	t.Helper()
	p.do(t, click("document.getElementById('pause')"))
	p.await(t, `document.getElementById('status').dataset.state === 'paused'`)
	eval[bool](t, p, `(() => {
		const source = new EventSource('debug/live');
		source.addEventListener('frame', (event) => { window.frame = JSON.parse(event.data); source.close(); });
		const url = performance.getEntriesByType('resource').find((r) => r.name.endsWith('/panels.js')).name;
		import(url).then((module) => { window.panels = module; });
		window.show = (seconds, fields) => {
			const at = new Date(Date.parse(window.frame.at) + 1000 * seconds).toISOString();
			window.panels.showFrame({ ...window.frame, at, ...fields });
			return true;
		};
		return true;
	})()`)
	p.await(t, "window.frame && window.panels")
}

// A count says how many are new, and since when, also after the page has seen no frame for hours.
func TestCountsOfTheLastMinuteLeaveOutWhatIsOlder(t *testing.T) {
	p := open(t, newWorld(t))
	p.hold(t)
	const day = 86400 // after the frames that the page has had
	for _, step := range []struct {
		seconds, cancelled int
		plus, title        string
	}{
		{day, 100, "", "in the last 0 s"},
		{day + 30, 130, "+30", "in the last 30 s"},
		{day + 60, 131, "+31", "in the last minute"},
		{day + 61, 132, "+2", "in the last 31 s"},
		{day + 28800, 5132, "", "in the last 0 s"}, // the tab was hidden
		{day + 28801, 5133, "+1", "in the last 1 s"},
		{day + 60, 5134, "", "in the last 0 s"}, // the server's clock was set
	} {
		eval[bool](t, p, fmt.Sprintf(`show(%d, { totals: { ...frame.totals, cancelled: { client_cancel: %d } } })`, step.seconds, step.cancelled))
		const plus = `document.querySelector('#causes .plus')`
		if got, title := eval[string](t, p, plus+".textContent"), eval[string](t, p, plus+".title"); got != step.plus || title != step.title {
			t.Errorf("%d cancellations after %d s: %q %q, want %q %q", step.cancelled, step.seconds, got, title, step.plus, step.title)
		}
	}
	p.clean(t)
}

// The numbers of sessions are of all of them, also of those that are no rows of the table.
func TestSessionsThatAreNotShownAreCounted(t *testing.T) {
	w := newWorld(t)
	for range 55 {
		w.session(t, inspect)
	}
	p := open(t, w)
	p.awaitText(t, "#n-sessions", "and 5 more")
	p.awaitText(t, "#streams", "55 (55 http)")
	p.hold(t)
	eval[bool](t, p, `show(1, { sessions_streaming: 53 })`)
	p.awaitText(t, "#streams div:nth-child(2)", "own streams", "53")
	p.clean(t)
}

// The page says how many tools its table leaves out.
func TestToolsThatAreNotShownAreCounted(t *testing.T) {
	p := open(t, newWorld(t))
	p.hold(t)
	eval[bool](t, p, `show(1, { tools: { rows: [{ method: 'tools/call', tool: 'get_order', calls: 3, errors: 0 }], left_out: 7 } })`)
	p.awaitText(t, "#h-latency", "and 7 more")
	eval[bool](t, p, `show(2, { tools: { rows: [] } })`)
	p.await(t, `!document.getElementById('h-latency').innerText.includes('more')`)
	p.clean(t)
}
