package attack

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// Clients that send a head, or a body, one byte after the other lose their connections. A body
// that does not arrive is answered with its limit.
func TestSlowHeadsAndBodiesEnd(t *testing.T) {
	t.Parallel()
	s := attacked(t, "--read-header-timeout", "700ms", "--body-timeout", "700ms", "--idle-timeout", "1s")
	undisturbed := s.others(t)
	before := s.admitted(t)
	echo := s.rawEcho(1)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { // a byte at a time, which never ends
			w := s.wire(t, attacker)
			_ = drip(w, echo.with("X-Long: ").String()[:100])
			if r, err := w.response(); err == nil && r.status/100 != 4 {
				t.Errorf("a slow head: %d %s", r.status, r.body)
			}
		})
		all.Go(func() { // the head in one piece, the body slowly
			w := s.wire(t, attacker)
			if _, err := io.WriteString(w, echo.with("Content-Length: 1000").String()); err != nil {
				t.Error(err)
				return
			}
			_ = drip(w, "          ")
			if r, err := w.response(); err != nil || r.status != http.StatusRequestTimeout || r.limit() != "body_timeout" {
				t.Errorf("a slow body: %v %d %s", err, r.status, r.body)
			}
		})
		all.Go(func() { // connected, and silent
			w := s.wire(t, attacker)
			if n, err := w.in.ReadByte(); err == nil {
				t.Errorf("a silent client was sent %q", n)
			} else if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
				t.Errorf("the connection of a silent client stays open")
			}
		})
	}
	all.Wait()
	if after := s.admitted(t); after != before {
		t.Errorf("%d requests were admitted", after-before)
	}
	undisturbed()
}

// drip writes a byte every 100 ms, until the peer closes the connection.
func drip(w io.Writer, text string) error {
	for i := range len(text) {
		if _, err := fmt.Fprint(w, text[i:i+1]); err != nil {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
	return nil
}
