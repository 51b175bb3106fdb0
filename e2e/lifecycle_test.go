package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	trace "go.opentelemetry.io/proto/otlp/trace/v1"
)

// stubborn is a call whose handler ignores its cancellation for five seconds, so that the test can
// check it meanwhile.
func stubborn(id any) request { return call(id, "sleep", object{"ms": 5_000, "stubborn": true}) }

// sleeping is a call whose handler goes on until it is cancelled.
func sleeping(id any) request { return call(id, "sleep", object{"ms": 600_000}) }

// cancelledBy matches a request in flight that was cancelled.
func cancelledBy(cause string) func(inFlight) bool {
	return func(r inFlight) bool { return r.State == "cancelled" && r.CancelCause == cause }
}

// checkCancelled looks at the counters for the one request that was cancelled.
func (s *server) checkCancelled(t *testing.T, cause, dropped string) {
	t.Helper()
	rep := s.settled(t)
	for c, n := range rep.Totals.Cancelled {
		if want := count(c == cause); n != want {
			t.Errorf("cancelled by %s: %d, want %d", c, n, want)
		}
	}
	for reason, n := range rep.Totals.Dropped {
		if want := count(reason == dropped); n != want {
			t.Errorf("dropped as %s: %d, want %d", reason, n, want)
		}
	}
	m := s.metrics(t)
	if n := m.sum("vitrine_requests_cancelled_total", "method", "tools/call", "tool", "sleep", "cause", cause); n != count1(cause != "") {
		t.Errorf("vitrine_requests_cancelled_total of the call: %v", n)
	}
	if n := m.sum("vitrine_responses_dropped_total", "method", "tools/call", "tool", "sleep", "reason", dropped); n != count1(dropped != "") {
		t.Errorf("vitrine_responses_dropped_total of the call: %v", n)
	}
	if n := m.sum("vitrine_cancel_unwind_seconds", "tool", "sleep", "cause", cause); n != count1(cause != "") {
		t.Errorf("vitrine_cancel_unwind_seconds of the call: %v", n)
	}
}

func count(yes bool) uint64 {
	if yes {
		return 1
	}
	return 0
}

func count1(yes bool) float64 { return float64(count(yes)) }

// checkCancelSpan looks at the span of a cancelled call.
func checkCancelSpan(t *testing.T, otlp *receiver, cause, outcome, dropped, errorType string) {
	t.Helper()
	got := otlp.awaitSpan(t, "tools/call sleep")
	attrs := got.attributes()
	for key, want := range map[string]string{
		"vitrine.cancel.cause": cause, "vitrine.response.outcome": outcome,
		"vitrine.drop.reason": dropped, "error.type": errorType,
	} {
		if v, ok := attrs[key]; want == "" && ok || want != "" && v != want {
			t.Errorf("attribute %s is %v, want %q", key, v, want)
		}
	}
	status := trace.Status_STATUS_CODE_UNSET
	if errorType != "" {
		status = trace.Status_STATUS_CODE_ERROR
	}
	if got.GetStatus().GetCode() != status {
		t.Errorf("status %v, want %v", got.GetStatus(), status)
	}
	if e := got.event("vitrine.cancelled"); e["vitrine.cancel.cause"] != cause {
		t.Errorf("event vitrine.cancelled: %v, want the cause %s", e, cause)
	}
	if e := got.event("vitrine.response.dropped"); dropped != "" && e["vitrine.drop.reason"] != dropped || dropped == "" && e != nil {
		t.Errorf("event vitrine.response.dropped: %v, want the reason %q", e, dropped)
	}
}

// A client that disconnects cancels its modern call.
func TestDisconnectCancelsAModernCall(t *testing.T) {
	t.Parallel()
	otlp := receive(t)
	s := serveHTTP(t, otlp.env())
	r := stubborn(1)
	p := s.begin(t, r.headers(), r.frame())
	row := s.awaitRunning(t, "sleep")
	if row.ID != "1" || row.Method != "tools/call" || row.Transport != "http" || row.Client != "raw" || len(row.TraceID) != 32 {
		t.Errorf("in flight as %+v", row)
	}
	if n := s.metrics(t).sum("vitrine_requests_in_flight", "state", "running"); n != 1 {
		t.Errorf("running on /metrics: %v", n)
	}
	p.drop()
	s.awaitRequest(t, "cancelled", cancelledBy("client_disconnect"))
	if n := s.metrics(t).sum("vitrine_requests_in_flight", "state", "cancelled"); n != 1 {
		t.Errorf("cancelled on /metrics: %v", n)
	}
	s.checkCancelled(t, "client_disconnect", "cancelled")
	checkCancelSpan(t, otlp, "client_disconnect", "dropped", "cancelled", "")
	if trace := otlp.awaitSpan(t, "tools/call sleep").traceID(); trace != row.TraceID {
		t.Errorf("trace %s on the page, %s on the span", row.TraceID, trace)
	}
}

// A client that disconnects does not cancel its legacy call. The answer is dropped.
func TestDisconnectDoesNotCancelALegacyCall(t *testing.T) {
	t.Parallel()
	s := serveHTTP(t)
	session := s.initialize(t)
	r := call(1, "sleep", object{"ms": 500}).inLegacy()
	p := s.begin(t, session.headers(), r.frame())
	s.awaitRunning(t, "sleep")
	p.drop()
	s.checkCancelled(t, "", "stream_gone")
}

// notifications/cancelled on a pipe cancels the call, and there is no answer.
func TestCancelOverStdioSuppressesTheAnswer(t *testing.T) {
	for _, era := range []string{"modern", "legacy"} {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			otlp := receive(t)
			p := connect(serveStdio(t, otlp.env()))
			r, cancel := stubborn(7), request{method: "notifications/cancelled", params: object{"requestId": 7, "reason": "no\nmore"}}
			if era == "legacy" {
				p.handshake(t)
				r, cancel = r.inLegacy(), cancel.inLegacy()
			}
			p.write(t, r.frame())
			p.awaitRunning(t, "sleep")
			p.write(t, cancel.frame())
			row := p.awaitRequest(t, "cancelled", cancelledBy("client_cancel"))
			if !strings.HasPrefix(row.CancelDetail, "no") || strings.Contains(row.CancelDetail, "\n") {
				t.Errorf("the client's reason is shown as %q", row.CancelDetail)
			}
			p.write(t, cancel.frame()) // a second time, when there is nothing to cancel
			eventually(t, func() error {
				if n := p.metrics(t).sum("vitrine_frames_ignored_total", "kind", "cancel", "reason", "unknown_id"); n != 1 {
					return fmt.Errorf("%v cancels were ignored", n)
				}
				return nil
			})
			// The id is free at once, although the handler has not returned.
			again := call(7, "echo", object{"text": "again"})
			again.legacy = r.legacy
			if m := p.ask(t, again); m.Result == nil || m.text() != `{"text":"again"}` {
				t.Errorf("the id used again: %+v", m)
			}
			p.checkCancelled(t, "client_cancel", "cancelled")
			checkCancelSpan(t, otlp, "client_cancel", "dropped", "cancelled", "")
			last := call(8, "echo", object{"text": "last"})
			last.legacy = r.legacy
			p.ask(t, last)
			answers := 0
			for _, line := range p.stdout.snapshot() {
				if string(decode(t, line).ID) == "7" {
					answers++
				}
			}
			if answers != 1 {
				t.Errorf("%d answers with the id, want the one of the second call:\n%s", answers, p.stdout)
			}
		})
	}
}

// Over HTTP a cancelled legacy exchange must end with an error.
func TestCancelOverLegacyHTTPEndsTheExchange(t *testing.T) {
	t.Parallel()
	otlp := receive(t)
	s := serveHTTP(t, otlp.env())
	session := s.initialize(t)
	p := s.begin(t, session.headers(), stubborn(7).inLegacy().frame())
	s.awaitRunning(t, "sleep")
	cancel := request{method: "notifications/cancelled", params: object{"requestId": 7}, legacy: true}
	if a := s.send(t, "POST", session.headers(), cancel.frame()); a.status != http.StatusAccepted {
		t.Errorf("the cancel: %d %s", a.status, a.body)
	}
	s.awaitRequest(t, "cancelled", cancelledBy("client_cancel"))
	if a := p.wait(t); a.code() != -32800 {
		t.Errorf("the cancelled call: %d %s", a.status, a.body)
	}
	s.checkCancelled(t, "client_cancel", "")
	checkCancelSpan(t, otlp, "client_cancel", "sent", "", "")
}

// A modern call cannot be cancelled by its id, which another client may have chosen as well.
func TestCancelOverModernHTTPIsIgnored(t *testing.T) {
	t.Parallel()
	s := serveHTTP(t)
	r := call(7, "sleep", object{"ms": 600})
	p := s.begin(t, r.headers(), r.frame())
	s.awaitRunning(t, "sleep")
	cancel := request{method: "notifications/cancelled", params: object{"requestId": 7}}
	if a := s.send(t, "POST", cancel.headers(), cancel.frame()); a.status != http.StatusAccepted || a.body != "" {
		t.Errorf("the cancel: %d %s", a.status, a.body)
	}
	if n := s.metrics(t).sum("vitrine_frames_ignored_total", "kind", "cancel", "reason", "wrong_transport"); n != 1 {
		t.Errorf("%v cancels were ignored", n)
	}
	if a := p.wait(t); a.status != 200 || a.text() != "slept for 600ms" {
		t.Errorf("the call: %d %s", a.status, a.body)
	}
	s.checkCancelled(t, "", "")
}
