package console

import (
	"strings"
	"testing"
)

// The panel says that nothing has changed, and shows the lines of the server with their links. Texts of clients
// in them are text.
func TestChangesAreShown(t *testing.T) {
	w := newWorld(t)
	p := open(t, w)
	p.awaitText(t, "#changes li", "Nothing has changed.")
	eval[bool](t, p, `window.fetch = async () => new Response(JSON.stringify({
	  history: {oldest: '2026-03-04T12:00:00Z'},
	  changes: [{
	    text: 'since 12:10:00: +410 % cancellations; 97 % of it: client <b>desk</b> 4.3.0, tool issue_refund, phase blocked', example: 'refused by <b>user</b>',
	    requests: '/debug/traces?class=cancelled&tool=issue_refund', traces: ['0123456789abcdef0123456789abcdef'],
	    promql: 'sum by (cause) (rate(vitrine_requests_cancelled_total[1m]))', promql_covers: 'all callers of issue_refund',
	  }],
	})), true`)
	p.awaitText(t, "#changes li", "client <b>desk</b> 4.3.0", "for example: refused by <b>user</b>", "requests", "01234567", "sum by (cause)", "of all callers of issue_refund")
	const links = `[...document.querySelectorAll('#changes a')].map((a) => new URL(a.href).pathname + new URL(a.href).search).join(' ')`
	want := "/debug/traces?class=cancelled&tool=issue_refund&format=text /debug/traces/0123456789abcdef0123456789abcdef?format=text"
	if got := eval[string](t, p, links); got != want {
		t.Errorf("the links are %s", got)
	}
	p.clean(t)
}

// The fields ask for two windows. What is wrong with them is said, and no lines of other windows are shown
// meanwhile.
func TestWindowsOfChangesAreChosen(t *testing.T) {
	w := newWorld(t)
	p := open(t, w)
	p.awaitText(t, "#changes li", "Nothing has changed.")
	enter := func(name, text string) {
		eval[bool](t, p, `(() => { const i = document.querySelector('#windows [name=`+name+`]'); i.value = '`+text+`'; i.dispatchEvent(new Event('change', {bubbles: true})); return true; })()`)
	}
	enter("from", "noon")
	p.awaitText(t, "#windows-fault", `from: want a time such as 2026-03-04T12:00:00Z, not "noon"`)
	p.await(t, `document.getElementById('changes').hidden`)
	enter("from", "2026-03-04T12:00:00Z")
	enter("to", "2026-03-04T13:00:00Z")
	enter("before_from", "2026-03-04T10:00:00Z")
	p.awaitText(t, "#windows-fault", "want both of before_from and before_to")
	enter("before_to", "2026-03-04T11:00:00Z")
	p.await(t, `document.getElementById('windows-fault').textContent === '' && !document.getElementById('changes').hidden`)
	const whole = "debug/changes?format=json&from=2026-03-04T12%3A00%3A00Z&to=2026-03-04T13%3A00%3A00Z&before_from=2026-03-04T10%3A00%3A00Z&before_to=2026-03-04T11%3A00%3A00Z"
	if p.sent(whole) == 0 {
		t.Error("the windows were not asked for")
	}
	p.clean(t, "debug/changes?format=json&from=")
}

// With the address of Prometheus a query is a link.
func TestQueriesOfChangesAreLinks(t *testing.T) {
	w := newWorld(t, "--prometheus-url=http://localhost:9090/")
	p := open(t, w)
	p.awaitText(t, "#changes li", "Nothing has changed.")
	eval[bool](t, p, `window.fetch = async () => new Response(JSON.stringify({
	  history: {oldest: '2026-03-04T12:00:00Z'},
	  changes: [{text: 'since 12:10:00', requests: '/debug/traces?class=error', traces: [], promql: 'rate(a{b="c d"}[1m])'}],
	})), true`)
	p.awaitText(t, "#changes li", "since 12:10:00")
	link := eval[string](t, p, `document.querySelector('#changes .query').parentElement.href`)
	if !strings.HasPrefix(link, "http://localhost:9090/graph?g0.expr=rate(a%7Bb%3D%22c%20d%22%7D%5B1m%5D)&g0.tab=0") {
		t.Errorf("the link is %s", link)
	}
	p.clean(t)
}
