package console

import (
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
	    requests: 'debug/traces?class=cancelled&tool=issue_refund', traces: ['0123456789abcdef0123456789abcdef'],
	    promql: 'sum by (cause) (rate(vitrine_requests_cancelled_total[1m]))',
	  }],
	})), true`)
	p.awaitText(t, "#changes li", "client <b>desk</b> 4.3.0", "for example: refused by <b>user</b>", "requests", "01234567", "sum by (cause)")
	const links = `[...document.querySelectorAll('#changes a')].map((a) => new URL(a.href).pathname + new URL(a.href).search).join(' ')`
	want := "/debug/traces?class=cancelled&tool=issue_refund&format=text /debug/traces/0123456789abcdef0123456789abcdef?format=text"
	if got := eval[string](t, p, links); got != want {
		t.Errorf("the links are %s", got)
	}
	p.clean(t)
}
