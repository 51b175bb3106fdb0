package console

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/vitrine-mcp/vitrine/internal/logline"
)

var (
	claude  = caller{"claude-code", "2.1.7"}
	inspect = caller{"mcp-inspector", "0.17.2"}
	agent   = caller{"acme-agent", "0.9.0"}
)

// TestPictures takes pictures of a service with traffic, in both sizes and both colour schemes,
// and checks those properties of the page that can be checked.
func TestPictures(t *testing.T) {
	w := newWorld(t, "--jaeger-url=http://localhost:16686")
	p := open(t, w)
	w.traffic(t)
	p.awaitText(t, "#inflight tbody tr", "watch_shipment", "running")
	p.awaitText(t, "#traces tbody tr", "render_invoice")
	p.awaitText(t, "#causes li", "client_cancel")
	p.awaitText(t, "#shares li", "max_in_flight_total", "of 4", "127.0.0.1 has")
	p.await(t, `document.querySelector('#tools tbody').rows.length >= 5`)
	if *screenshots != "" {
		time.Sleep(80 * time.Second) // for the curves of the pictures; nothing depends on it
	}
	p.await(t, `document.querySelector('.spark polyline').getAttribute('points').split(' ').length > 3`)
	p.do(t, click("document.querySelector('#traces [data-mark=error]').closest('tr').querySelector('.opener')"))
	p.awaitText(t, "tr.detail", "payments.charge", "http.post", "running")
	for _, size := range []struct{ width, height int64 }{{1280, 1350}, {390, 844}} {
		for _, scheme := range []string{"light", "dark"} {
			p.show(t, size.width, size.height, scheme)
			name := fmt.Sprintf("console-%d-%s", size.width, scheme)
			p.picture(t, name)
			if wide := eval[int64](t, p, "document.documentElement.scrollWidth"); wide > size.width {
				t.Errorf("%s scrolls sideways: the page is %d wide; %s", name, wide, eval[string](t, p, tooWide))
			}
			if low := eval[[]string](t, p, lowContrast); len(low) > 0 {
				t.Errorf("%s has texts with a contrast below 4.5: %q", name, low)
			}
		}
	}
	p.clean(t)
}

// traffic is a workload with a bit of everything.
func (w *world) traffic(t *testing.T) {
	var id atomic.Int64
	do := func(ctx context.Context, who caller, tool, text string) {
		_ = w.call(ctx, who, id.Add(1), tool, text)
	}
	every := func(pause time.Duration, f func(ctx context.Context)) {
		background(t, func(ctx context.Context) {
			for ctx.Err() == nil {
				f(ctx)
				select {
				case <-time.After(pause):
				case <-ctx.Done():
				}
			}
		})
	}
	every(8*time.Millisecond, func(ctx context.Context) { do(ctx, claude, "get_order", "") })
	every(20*time.Millisecond, func(ctx context.Context) { do(ctx, agent, "search_orders", "") })
	every(150*time.Millisecond, func(ctx context.Context) { do(ctx, claude, "forecast_demand", "") })
	every(90*time.Millisecond, func(ctx context.Context) { do(ctx, agent, "charge_card", "") })
	every(1900*time.Millisecond, func(ctx context.Context) { do(ctx, agent, "charge_card", "fail") })
	every(7*time.Second, func(ctx context.Context) { do(ctx, inspect, "render_invoice", "") })
	every(3*time.Second, func(ctx context.Context) { do(ctx, inspect, "no_such_tool", "") })
	every(2500*time.Millisecond, func(ctx context.Context) { // walks away
		short, cancel := context.WithTimeout(ctx, 400*time.Millisecond)
		defer cancel()
		do(short, claude, "watch_shipment", "")
	})
	session := w.session(t, inspect)
	w.session(t, caller{"desktop", "1.0.3"})
	every(2*time.Second, func(ctx context.Context) { // cancels
		n := id.Add(1)
		calling := make(chan struct{})
		short, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		go func() {
			defer close(calling)
			_ = w.legacy(short, session, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"watch_shipment","arguments":{}}}`, n))
		}()
		w.awaitInFlight(short, fmt.Sprint(n))
		_ = w.legacy(ctx, session, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d,"reason":"the user has stopped it"}}`, n))
		<-calling
	})
	w.begin(t, agent, "job-1138", "watch_shipment")
	drop := w.begin(t, claude, 40961, "export_ledger")
	patient, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if !w.awaitInFlight(patient, "40961") {
		t.Fatal("the call never runs")
	}
	drop() // and the handler goes on
}

// A request that hangs is on the page with its caller and its age, and after its cancellation with
// the cause, also while the handler goes on.
func TestHangingCallIsShown(t *testing.T) {
	w := newWorld(t)
	p := open(t, w)
	drop := w.begin(t, claude, 77, "export_ledger")
	p.awaitText(t, "#inflight tbody tr", "running", "export_ledger", "id 77", "claude-code 2.1.7", "127.0.0.1:", "2026-07-28")
	const age = `parseFloat(document.querySelector('#inflight tbody tr').cells[1].innerText)`
	first := eval[float64](t, p, age)
	p.await(t, fmt.Sprintf("%s > %v + 1", age, first))

	drop()
	p.awaitText(t, "#inflight tbody tr", "cancelled", "client_disconnect", "export_ledger", "claude-code 2.1.7")
	p.awaitText(t, "#causes li", "client_disconnect", "1")
	w.release()
	p.awaitText(t, "#inflight tbody tr", "Nothing is in flight.")
	p.awaitText(t, "#traces tbody tr", "cancelled", "export_ledger", "client_disconnect", "claude-code 2.1.7")
	p.clean(t)
}

// The page works without a mouse.
func TestPageWorksWithTheKeyboard(t *testing.T) {
	w := newWorld(t)
	p := open(t, w)
	for i := range 3 {
		_ = w.call(t.Context(), agent, i, "charge_card", "fail")
		p.await(t, fmt.Sprintf("document.querySelectorAll('#traces .opener').length === %d", i+1))
	}
	const focused = `document.activeElement.textContent.trim()`
	p.do(t, chromedp.KeyEvent(kb.Tab))
	if got := eval[string](t, p, focused); got != "Skip to the requests" {
		t.Errorf("the first stop is %q", got)
	}
	if !eval[bool](t, p, "document.activeElement.getBoundingClientRect().top >= 0") {
		t.Error("the skip link cannot be seen when it has the focus")
	}
	seen := map[string]bool{}
	for range 60 {
		p.do(t, chromedp.KeyEvent(kb.Tab))
		if eval[bool](t, p, "document.activeElement.classList.contains('opener')") {
			seen["a request that has ended"] = true
			break
		}
		seen[eval[string](t, p, focused)] = true
		if !eval[bool](t, p, "getComputedStyle(document.activeElement).outlineStyle !== 'none'") {
			t.Errorf("no focus can be seen on %q", eval[string](t, p, focused))
		}
	}
	for _, stop := range []string{"Pause", "metrics", "profiles", "all3", "errors3", "a request that has ended"} {
		if !seen[stop] {
			t.Errorf("Tab does not come to %q, but to %q", stop, slices.Sorted(maps.Keys(seen)))
		}
	}
	p.do(t, chromedp.KeyEvent(kb.ArrowDown), chromedp.KeyEvent(kb.Enter))
	p.awaitText(t, "tr.detail", "payments.charge", "http.post", "running", "tool_error")
	if eval[int](t, p, "[...document.querySelectorAll('#traces .opener')].indexOf(document.activeElement)") != 1 {
		t.Error("the arrow does not lead to the next row, or opening it has moved the focus")
	}
	p.do(t, chromedp.KeyEvent(kb.Escape))
	p.await(t, "!document.querySelector('tr.detail')")
	if !eval[bool](t, p, "document.activeElement.classList.contains('opener')") {
		t.Error("the focus is lost when a row is closed")
	}
	p.clean(t)
}

// What clients send is text on the page, and never HTML.
func TestTextOfClientsIsNeverHTML(t *testing.T) {
	w := newWorld(t)
	p := open(t, w)
	const name = `<img src=x onerror="document.title='broken'"><b>bold</b>`
	w.begin(t, caller{name, "<i>1</i>"}, "<script>1</script>", "watch_shipment")
	_ = w.call(t.Context(), caller{name, "2"}, 5, "<u>no such tool</u>", "")
	p.awaitText(t, "#inflight tbody tr", name[:50], "<i>1</i>", "<script>")
	p.awaitText(t, "#traces tbody tr", name[:50], "<u>no such tool</u>")
	if n := eval[int](t, p, "document.querySelectorAll('table :is(img, u, script, b, i):not(.range *)').length"); n != 0 {
		t.Errorf("%d elements come from the wire", n)
	}
	if got := eval[string](t, p, "document.title"); got != "orders – Vitrine" {
		t.Errorf("the title is %q", got)
	}
	p.clean(t)
}

// A character without a shape cannot make a text look like another one.
func TestCharactersWithoutAShapeAreReplaced(t *testing.T) {
	w := newWorld(t)
	p := open(t, w)
	eval[bool](t, p, `import('/console/dom.js').then((m) => { window.visible = m.visible; }), true`)
	p.await(t, "window.visible")
	shown := eval[[]int](t, p, `Array.from({length: 0x110000}, (_, c) => c).filter((c) => (c < 0xd800 || c > 0xdfff) && visible(String.fromCodePoint(c)) === String.fromCodePoint(c))`)
	for _, c := range shown {
		if r := rune(c); logline.Deceptive(r) && r != '\t' && r != '\n' {
			t.Errorf("%U is shown as it is", r)
		}
	}
	if len(shown) < 1_000_000 {
		t.Errorf("only %d characters are shown as they are", len(shown))
	}
	for _, text := range []string{"日本語 עברית العربية", "naïve – “quoted”", "😀❤️"} {
		if got := eval[string](t, p, fmt.Sprintf("visible(%q)", text)); got != text {
			t.Errorf("%q is shown as %q", text, got)
		}
	}
	p.clean(t)
}

// The recent requests are narrowed by client, version and tool.
func TestFiltersOfRecentRequests(t *testing.T) {
	w := newWorld(t)
	old, fresh := caller{"desk-agent", "4.2.9"}, caller{"desk-agent", "4.3.0"}
	_ = w.call(t.Context(), old, "the old one", "charge_card", "fail")
	for i := range 40 {
		_ = w.call(t.Context(), fresh, i, "charge_card", "fail")
	}
	p := open(t, w)
	p.awaitText(t, "#traces tbody tr", "charge_card", "4.3.0")
	set := func(name, text string) {
		eval[bool](t, p, fmt.Sprintf(`{const i = document.querySelector('#filters [name=%s]'); i.value = %q; i.dispatchEvent(new Event('change')); true}`, name, text))
	}
	const versions = `[...new Set([...document.querySelectorAll('#traces tbody tr.row td:nth-child(5)')].map((td) => td.textContent))].join(';')`
	set("client", "desk-agent")
	set("client_version", "4.2.9")
	p.await(t, `document.querySelector('#traces tbody').rows.length === 1 && `+versions+`.includes('4.2.9')`)
	set("tool", "get_order")
	p.awaitText(t, "#traces tbody tr", "None of this kind is kept.")
	set("tool", "charge_card")
	set("client_version", "4.3.0")
	p.await(t, `document.querySelector('#traces tbody').rows.length > 10 && !`+versions+`.includes('4.2.9')`)
	p.clean(t)
}

// The requests in flight are narrowed by the same fields.
func TestFiltersOfRequestsInFlight(t *testing.T) {
	w := newWorld(t)
	w.begin(t, caller{"desk-agent", "4.2.9"}, "1", "watch_shipment")
	w.begin(t, caller{"desk-agent", "4.3.0"}, "2", "watch_shipment")
	p := open(t, w)
	p.awaitText(t, "#inflight tbody", "4.2.9", "4.3.0")
	set := func(text string) {
		eval[bool](t, p, fmt.Sprintf(`{const i = document.querySelector('#inflight-filters [name=client_version]'); i.value = %q; i.dispatchEvent(new Event('change')); true}`, text))
	}
	const rows = `document.querySelectorAll('#inflight tbody tr')`
	set("4.3.0")
	p.await(t, rows+`.length === 1 && `+rows+`[0].textContent.includes('4.3.0')`)
	p.awaitText(t, "#n-inflight", "1 of 2")
	set("5")
	p.awaitText(t, "#inflight tbody", "Nothing like that is in flight.")
	set("")
	p.await(t, rows+`.length === 2`)
	p.clean(t)
}

// The page also works with a token, which a browser sends as the password.
func TestPageWithAToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("the-token-of-an-operator\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, "--admin-token-file="+file)
	w.Admin = strings.Replace(w.Admin, "://", "://anybody:the-token-of-an-operator@", 1)
	p := open(t, w)
	w.begin(t, claude, "1", "watch_shipment")
	p.awaitText(t, "#inflight tbody tr", "watch_shipment", "running")
	p.clean(t, "401") // the browser asks for the credential
}

// A hidden or paused page has no open stream.
func TestHiddenPageHasNoStream(t *testing.T) {
	w := newWorld(t)
	p := open(t, w)
	w.awaitListeners(t, 1)
	const hide = `Object.defineProperty(document, 'hidden', {value: %v, configurable: true}), document.dispatchEvent(new Event('visibilitychange'))`
	eval[bool](t, p, fmt.Sprintf(hide, true))
	w.awaitListeners(t, 0)
	eval[bool](t, p, fmt.Sprintf(hide, false))
	w.awaitListeners(t, 1)
	p.await(t, `document.getElementById('status').dataset.state === 'live'`)

	p.do(t, click("document.getElementById('pause')"))
	w.awaitListeners(t, 0)
	p.awaitText(t, "#status", "paused")
	p.do(t, click("document.getElementById('pause')"))
	w.awaitListeners(t, 1)
	p.clean(t)
}
