package attack

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// boundedMemory is the memory that the servers of this file may take, in bytes.
const boundedMemory = 512 << 20

// bounded starts a server that may take boundedMemory.
func bounded(t *testing.T) *target {
	return attacked(t, "--max-memory", fmt.Sprint(boundedMemory))
}

// fits checks that the server has kept within its memory.
func (s *target) fits(t *testing.T, what string) {
	t.Helper()
	peak := s.memory(t, "VmHWM")
	t.Logf("%s: largest resident set %d MiB", what, peak>>20)
	if peak > boundedMemory {
		t.Errorf("%s: the resident set had %d MiB, and may have %d", what, peak>>20, boundedMemory>>20)
	}
}

// slowReaders sends a request over each of n connections and reads nothing.
func (s *target) slowReaders(t *testing.T, n int, what call) []*wire {
	t.Helper()
	raw := s.rawEcho(1).set("Mcp-Name", what.tool)
	raw.body = what.frame(1, true)
	all := make([]*wire, n)
	for i := range all {
		all[i] = s.wire(t, fmt.Sprintf("127.0.0.%d", 66+i%4))
		if tcp, ok := all[i].Conn.(*net.TCPConn); ok {
			_ = tcp.SetReadBuffer(4 << 10)
		}
		if _, err := io.WriteString(all[i], raw.String()); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// What waits for readers that do not read has a bound for the process. Others get answers of the
// same size meanwhile.
func TestUnreadOutputHasABudget(t *testing.T) {
	for name, what := range map[string]call{
		"messages": {tool: "chatter", arguments: `{"messages":400,"bytes":100000}`},
		"answers":  {tool: "big", arguments: `{"bytes":4000000}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := bounded(t)
			undisturbed := s.others(t)
			s.forgetPeak(t)
			readers := s.slowReaders(t, 60, what)
			time.Sleep(2 * time.Second) // longer than a notification waits
			modest := s.caller(t, bystanders, "otto")
			big := call{tool: "big", arguments: `{"bytes":1000000}`}
			if r := modest.modern(t, 1, big); len(r.text()) != 1_000_000 {
				t.Errorf("another caller got %d, %d bytes: %.200s", r.status, len(r.body), r.body)
			}
			undisturbed()
			s.fits(t, "60 requests that do not read")
			for _, w := range readers {
				w.Close()
			}
		})
	}
}

// Bodies that do not come to their end count from the first byte on, and others can send bodies
// of the same size.
func TestStalledBodiesHaveABudget(t *testing.T) {
	t.Parallel()
	s := bounded(t)
	undisturbed := s.others(t)
	s.forgetPeak(t)
	raw := s.rawEcho(1)
	raw.body = call{tool: "echo", arguments: `{"text":"` + strings.Repeat("x", 64<<10) + `"}`}.frame(1, true)
	text := raw.String()
	var refused atomic.Int64
	var wires []*wire
	for i := range 3000 {
		w := s.wire(t, fmt.Sprintf("127.0.0.%d", 66+i%4))
		wires = append(wires, w)
		_, _ = io.WriteString(w, text[:len(text)-1])
		go func() {
			if r, err := w.response(); err == nil && r.limit() == "max_body_bytes_pending" {
				refused.Add(1)
			}
		}()
	}
	c := s.caller(t, bystanders, "otto")
	if r := c.must(t, http.MethodPost, call{tool: "echo"}.header(), raw.body); len(r.text()) != 64<<10 {
		t.Errorf("another caller got %d: %.200s", r.status, r.body)
	}
	undisturbed()
	s.fits(t, "3000 stalled bodies")
	if refused.Load() == 0 {
		t.Error("no body was refused")
	}
	t.Logf("%d of 3000 bodies were refused", refused.Load())
	for _, w := range wires {
		w.Close()
	}
}

// Connections that have carried a large message are no larger than others for long.
func TestIdleConnectionsFitIntoTheMemory(t *testing.T) {
	t.Parallel()
	s := bounded(t)
	undisturbed := s.others(t)
	s.forgetPeak(t)
	flat := s.rawEcho(1)
	flat.body = call{tool: "echo", arguments: `{"text":"` + strings.Repeat("x", 20_000) + `"}`}.frame(1, true)
	deep := s.rawEcho(1)
	deep.body = strings.Repeat("[", 9900) + strings.Repeat("]", 9900)
	n := size(5000, 1500)
	var wires []*wire
	for i := range n {
		w := s.wire(t, fmt.Sprintf("127.0.0.%d", 66+i%4))
		wires = append(wires, w)
		raw := flat
		if i%2 == 1 {
			raw = deep
		}
		if _, err := io.WriteString(w, raw.String()); err != nil {
			t.Fatal(err)
		}
		if _, err := w.response(); err != nil {
			t.Fatal(err)
		}
	}
	undisturbed()
	s.fits(t, fmt.Sprint(n, " idle connections"))
	for _, w := range wires {
		w.Close()
	}
}
