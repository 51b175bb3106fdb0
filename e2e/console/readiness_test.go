package console

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A server that is full, and has told a probe so, is on the page as not ready, with the reason. It is ready there when a
// later probe has found it so.
func TestFullServerIsShownAsNotReady(t *testing.T) {
	w := newWorld(t, "--max-in-flight-total=2", "--max-queue=1", "--saturation-grace=300ms")
	p := open(t, w)
	p.awaitText(t, `#readiness[data-state="ready"]`, "ready since")

	for id := range 4 { // two hold the slots, one waits, one is refused
		w.begin(t, agent, id, "watch_shipment")
	}
	w.probe(t, http.StatusServiceUnavailable, "saturation")
	p.awaitText(t, `#readiness[data-state="not_ready"]`, "not ready since", "saturation: all slots have been held and the queue full for",
		"max_in_flight_total", "max_queue")

	w.release()
	w.probe(t, http.StatusOK, "")
	p.awaitText(t, `#readiness[data-state="ready"]`, "ready since")
	if got := eval[string](t, p, "document.getElementById('readiness').innerText"); strings.Contains(got, "saturation") {
		t.Errorf("the page still shows %q", got)
	}
	p.clean(t)
}

// probe asks readyz, as an orchestrator does, until its answer has a status and a text.
func (w *world) probe(t *testing.T, status int, text string) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		resp, err := w.client.Get(w.Admin + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err == nil && resp.StatusCode == status && strings.Contains(string(body), text) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("readyz: %d %s (%v), want %d %s", resp.StatusCode, body, err, status, text)
		}
	}
}
