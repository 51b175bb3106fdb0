package attack

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// addressLimit lets each address call 20 times.
const addressLimit = "calls 20/1d per address methods tools/call"

// servedWith calls so often, each time with headers of its own, and returns how many calls were
// served. All others must be over the limit.
func (c *caller) servedWith(t *testing.T, calls int, headers func(i int) http.Header) (served int) {
	t.Helper()
	for i := range calls {
		what := echo("x")
		h := what.header()
		for name, values := range headers(i) {
			h[name] = values
		}
		r := c.must(t, http.MethodPost, h, what.frame(i, true))
		if r.text() == "x" {
			served++
			continue
		}
		overTheLimit(t, r, "calls")
	}
	return served
}

// A caller that says in headers that it comes from elsewhere has the address of its connection.
func TestACallerCannotChooseItsAddress(t *testing.T) {
	t.Parallel()
	s := attacked(t, "--rate-limits", addressLimit)
	undisturbed := s.others(t)
	forge := func(i int) http.Header {
		from := fmt.Sprintf("10.1.%d.7", i)
		return http.Header{
			"X-Forwarded-For": {from}, "Forwarded": {"for=" + from}, "X-Real-Ip": {from}, "True-Client-Ip": {from},
			"Cf-Connecting-Ip": {from}, "X-Client-Ip": {from}, "Client-Ip": {from}, "Via": {"1.1 " + from},
		}
	}
	if n := s.caller(t, attacker, "").servedWith(t, 60, forge); n != 20 {
		t.Errorf("with forged addresses %d calls were served, want 20", n)
	}
	// Nor does it use up what another address may have.
	s.caller(t, attackerAddress(1), "").servedWith(t, 30, func(int) http.Header { return http.Header{"X-Forwarded-For": {bystanders}} })
	undisturbed()
	if !strings.Contains(strings.Join(s.log.all(), ""), "proxy.untrusted") {
		t.Error("no warning of a proxy that is not trusted")
	}
}

// Behind a trusted proxy the address of a caller is what that proxy has added. What the caller has
// sent stands before it, or in the other header.
func TestACallerBehindAProxyCannotChooseItsAddress(t *testing.T) {
	t.Parallel()
	s := attacked(t, "--rate-limits", addressLimit, "--trusted-proxies", attacker)
	undisturbed := s.others(t)
	proxy := s.caller(t, attacker, "")
	from := func(values ...string) http.Header { return http.Header{"X-Forwarded-For": values} }
	for name, forge := range map[string]func(i int) http.Header{
		"10.9.0.1":          func(i int) http.Header { return from(fmt.Sprintf("10.1.%d.7, 10.9.0.1", i)) },
		"10.9.0.2":          func(i int) http.Header { return from(fmt.Sprintf("10.1.%d.7", i), "10.9.0.2") },
		"10.9.0.3":          func(i int) http.Header { return from(fmt.Sprintf("%s, 10.1.%d.7, %[1]s,10.9.0.3", attacker, i)) },
		"10.9.0.4":          func(i int) http.Header { return from(strings.Repeat("x, ", i) + "10.9.0.4, " + attacker) },
		"10.9.0.5":          func(i int) http.Header { return from(fmt.Sprintf("10.9.0.5:%d", 1000+i)) },
		"10.9.0.6":          func(i int) http.Header { return from(fmt.Sprintf("[::ffff:10.9.0.6]:%d", 1000+i)) },
		"2001:db8:0:1::/64": func(i int) http.Header { return from(fmt.Sprintf("2001:db8:0:1:%x::%x", i, 7*i)) },
		"2001:db8:0:2::/64": func(i int) http.Header {
			return http.Header{"Forwarded": {fmt.Sprintf(`for="[2001:db8:0:2::%x:1]:%d"`, i, 1000+i)}}
		},
		"10.9.0.7": func(i int) http.Header {
			return http.Header{"Forwarded": {fmt.Sprintf(`for=10.1.%d.7;by="x", for=10.9.0.7`, i)}}
		},
	} {
		if n := proxy.servedWith(t, 30, forge); n != 20 {
			t.Errorf("as %s with forged addresses %d calls were served, want 20", name, n)
		}
	}
	// Two headers that say different things say nothing: such a call counts as the proxy's own.
	both := func(i int) http.Header {
		h := from("10.9.0.8")
		h.Set("Forwarded", fmt.Sprintf("for=10.1.%d.7", i))
		return h
	}
	if n := proxy.servedWith(t, 30, both); n != 20 {
		t.Errorf("with two headers %d calls were served, want 20", n)
	}
	if n := proxy.servedWith(t, 1, func(int) http.Header { return from("10.9.0.9") }); n != 1 {
		t.Error("another caller behind the proxy is over the limit")
	}
	undisturbed()
}
