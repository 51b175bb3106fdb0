package attack

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
)

// One caller that reads none of its answers is refused further calls, and others are not.
func TestUnreadAnswersOfOneCallerLeaveRoomForOthers(t *testing.T) {
	t.Parallel()
	const size = 32
	s := attacked(t, "--max-unread", fmt.Sprint(size))
	undisturbed := s.others(t)
	big := s.rawEcho(1).set("Mcp-Name", "big")
	big.body = call{tool: "big", arguments: `{"bytes":1000000}`}.frame(1, true)
	held := 0
	for range 2 * size {
		w := s.wire(t, attacker)
		if err := w.Conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, big.String()); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(w.in, nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode == http.StatusOK {
			held++
			continue // the rest stays unread
		}
		body, err := io.ReadAll(resp.Body)
		if r := decoded(resp, body); err != nil || r.status != http.StatusTooManyRequests || r.limit() != "max_unread" {
			t.Fatalf("%v %d %s", err, r.status, r.body)
		}
	}
	const most = size - size/16 // without the reserve
	if n := s.metrics(t).sum("vitrine_share_largest", `limit="max_unread"`); held != most || n != most {
		t.Errorf("%d calls were answered, %.0f answers wait, and %d may", held, n, most)
	}
	undisturbed()
}

// One caller with as many streams as it can open leaves room for the connections and streams of others.
func TestStreamsOfOneCallerLeaveRoomForOthers(t *testing.T) {
	t.Parallel()
	const size = 512
	s := attacked(t, "--max-connections", fmt.Sprint(size))
	undisturbed := s.others(t)
	c := s.caller(t, attacker, "")
	get := rawRequest{line: "GET /mcp HTTP/1.1", header: []string{"Host: " + s.host, "Accept: text/event-stream"}}
	var opens []string
	for range 2 * size { // a session has one stream
		c.initialize(t)
		opens = append(opens, get.set("Mcp-Session-Id", c.session).String())
	}
	open := 0
	for _, raw := range opens {
		w := s.wire(t, attacker)
		if _, err := io.WriteString(w, raw); err != nil {
			continue // there was no place
		}
		resp, err := http.ReadResponse(w.in, nil)
		if err != nil {
			continue
		}
		if open++; resp.StatusCode != http.StatusOK {
			t.Errorf("a stream: %d", resp.StatusCode)
		}
	}
	olga := s.caller(t, bystanders, "")
	olga.initialize(t)
	if st := olga.openStream(t, http.MethodGet, olga.sessionHeader(), ""); st.status != http.StatusOK {
		t.Errorf("the stream of another caller: %d", st.status)
	}
	undisturbed()
	reached := s.metrics(t).sum("vitrine_limit_reached_total", `limit="max_connections"`)
	if open < size/2 || open > size-size/16 || reached == 0 {
		t.Errorf("%d streams are open, and max_connections was reached %.0f times", open, reached)
	}
}
