package console

import (
	"context"
	"io"
	"net/http"
	"testing"
)

// A stream that has ended is on the page with its reason and its client. Disconnects are, by version of the
// client.
func TestEndedStreamsAndDisconnects(t *testing.T) {
	w := newWorld(t)
	p := open(t, w)
	p.awaitText(t, "#ended tbody", "No stream has ended.")
	p.awaitText(t, "#disconnects", "No client has disconnected in the last 10 m 00 s.")

	session := w.session(t, inspect)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.MCP, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Mcp-Session-Id", session)
	resp, err := w.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	leave()
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	p.awaitText(t, "#ended tbody tr", "peer_left", "session", "mcp-inspector 0.17.2", "127.0.0.1:")

	for _, id := range []string{"first", "second"} {
		short, cancel := context.WithTimeout(t.Context(), patience)
		go func() {
			w.awaitInFlight(short, id)
			cancel()
		}()
		_ = w.call(short, claude, id, "watch_shipment", "")
		cancel()
	}
	p.awaitText(t, "#disconnected", "By client:", "claude-code 2.1.7 2")
	p.clean(t)
}
