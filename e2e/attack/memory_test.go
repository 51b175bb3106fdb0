package attack

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// boundedMemory is the memory that the servers of this file may take, in bytes.
const boundedMemory = 510 << 20

// bounded starts a server that may take boundedMemory.
func bounded(t *testing.T) *target {
	return attacked(t, "--max-memory", fmt.Sprint(boundedMemory))
}

// fits checks that the server has kept within its memory.
func (s *target) fits(t *testing.T, what string) {
	t.Helper()
	s.fitsInto(t, boundedMemory, what)
}

// fitsInto checks that the server has taken no more than some bytes of memory.
func (s *target) fitsInto(t *testing.T, memory int64, what string) {
	t.Helper()
	peak := s.memory(t, "VmHWM")
	t.Logf("%s: largest resident set %d MiB", what, peak>>20)
	if peak > memory {
		t.Errorf("%s: the resident set had %d MiB, and may have %d", what, peak>>20, memory>>20)
	}
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
			raw := s.rawEcho(1).set("Mcp-Name", what.tool)
			raw.body = strings.Replace(what.frame(1, true), `"_meta":{`, `"_meta":{"io.modelcontextprotocol/logLevel":"debug",`, 1)
			for w := range s.wires(t, 60) {
				if tcp, ok := w.Conn.(*net.TCPConn); ok {
					_ = tcp.SetReadBuffer(4 << 10)
				}
				if _, err := io.WriteString(w, raw.String()); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(2 * time.Second) // longer than a notification waits
			eventually(t, func() error {
				const part, limit = `{part="output"}`, `{limit="max_queued_bytes_total"}`
				m := s.metrics(t)
				held, bound, reached := m["vitrine_memory_held_bytes"+part], m["vitrine_memory_bound_bytes"+part], m["vitrine_limit_reached_total"+limit]
				if bound == 0 || held < bound/2 || held > bound || reached == 0 {
					return fmt.Errorf("%.0f of %.0f bytes wait, and the limit was reached %.0f times", held, bound, reached)
				}
				return nil
			})
			modest := s.caller(t, bystanders, "otto")
			big := call{tool: "big", arguments: `{"bytes":1000000}`}
			if r := modest.modern(t, 1, big); len(r.text()) != 1_000_000 {
				t.Errorf("another caller got %d, %d bytes: %.200s", r.status, len(r.body), r.body)
			}
			undisturbed()
			s.fits(t, "60 requests that do not read")
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
	raw.body = echo(strings.Repeat("x", 64<<10)).frame(1, true)
	text := raw.String()
	var refused atomic.Int64
	for w := range s.wires(t, 3000) {
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
}

// Arguments take many times their text as Go values, which handlers keep while they wait.
func TestArgumentsThatHandlersKeepHaveABudget(t *testing.T) {
	for name, what := range map[string]struct{ calls, bytes int }{"large": {40, 500_000}, "small": {350, 60_000}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := bounded(t)
			undisturbed := s.others(t)
			s.forgetPeak(t)
			const object = `{"name":1},`
			objects := strings.Repeat(object, what.bytes/len(object))
			hold := call{tool: "hold", arguments: `{"ms":5000,"anything":[` + objects + `1]}`}
			var all []*pending
			for range what.calls {
				all = append(all, s.caller(t, attacker, "").begin(t, hold.header(), hold.frame(1, true)))
			}
			eventually(t, func() error { // the attacker has all that it can get
				if r := s.caller(t, attacker, "").modern(t, 1, hold); r.limit() != "max_argument_bytes_total" {
					return fmt.Errorf("one more call got %d", r.status)
				}
				return nil
			})
			old := s.caller(t, attacker, "")
			old.initialize(t)
			if r := old.legacy(t, 1, hold); r.limit() != "max_argument_bytes_total" || r.status != http.StatusTooManyRequests {
				t.Errorf("one more call in a session got %d: %.300s", r.status, r.body)
			}
			modest := s.caller(t, bystanders, "otto")
			if r := modest.modern(t, 1, call{tool: "anything", arguments: `{"anything":[` + objects[:2000*len(object)] + `1]}`}); r.text() != "something" {
				t.Errorf("another caller got %d: %.300s", r.status, r.body)
			}
			answered, refused := 0, 0
			for _, p := range all {
				switch r := p.wait(t); {
				case r.limit() == "max_argument_bytes_total" && r.status == http.StatusTooManyRequests:
					refused++
				case r.status == http.StatusOK:
					answered++
				default:
					t.Errorf("%d: %.300s", r.status, r.body)
				}
			}
			undisturbed()
			s.fits(t, fmt.Sprintf("%d calls with %d bytes of objects", what.calls, what.bytes))
			if answered == 0 || refused == 0 {
				t.Errorf("%d calls were answered and %d refused", answered, refused)
			}
			t.Logf("%d calls were answered, %d refused", answered, refused)
		})
	}
}

// What a server keeps of calls that are over, for pages and histories, fits with the program into what docs/limits.md says of the rest of
// the process.
func TestWhatIsKeptOfCallsFits(t *testing.T) {
	t.Parallel()
	const rest = 64 << 20 // limits.FixedBytes
	s := attacked(t)
	undisturbed := s.others(t)
	n := size(20_000, 3000)
	var all sync.WaitGroup
	for from := range 4 {
		c := s.caller(t, attackerAddress(from), "")
		all.Go(func() {
			for i := from; i < n; i += 4 {
				name := fmt.Sprint(i, strings.Repeat("x", 5000)) // a header has room for it
				what := []call{{tool: name}, {method: name}, {tool: "fail", arguments: fmt.Sprintf(`{"text":%q}`, name)}}[i/4%3]
				frame := strings.Replace(what.frame(i, true), `"name":"attack"`, fmt.Sprintf(`"name":%q`, name+name), 1)
				if _, err := c.send(context.Background(), http.MethodPost, what.header(), frame); err != nil {
					t.Error(err)
					return
				}
			}
			c.http.CloseIdleConnections()
		})
	}
	all.Wait()
	undisturbed()
	s.page(t, "/debug/pprof/heap?gc=1")
	m := s.metrics(t)
	heap, stacks, program := int64(m["go_memstats_heap_alloc_bytes"]), int64(m["go_memstats_stack_inuse_bytes"]), s.memory(t, "RssFile")
	t.Logf("after %d calls: heap %d MiB, stacks %d MiB, program %d MiB", n, heap>>20, stacks>>20, program>>20)
	if sum := heap + stacks + program; heap == 0 || sum > rest {
		t.Errorf("after %d calls the server keeps %d MiB, and may keep %d", n, sum>>20, rest>>20)
	}
}

// Connections that have carried a large message are no larger than others for long.
func TestIdleConnectionsFitIntoTheMemory(t *testing.T) {
	t.Parallel()
	s := bounded(t)
	undisturbed := s.others(t)
	s.forgetPeak(t)
	flat, deep := s.rawEcho(1), s.rawEcho(1)
	flat.body = echo(strings.Repeat("x", 20_000)).frame(1, true)
	deep.body = strings.Repeat("[", 9900) + strings.Repeat("]", 9900)
	n := size(5000, 1500)
	texts, carried := []string{flat.String(), deep.String()}, 0
	for w := range s.wires(t, n) {
		if _, err := io.WriteString(w, texts[carried%2]); err != nil {
			continue // over max_connections
		}
		if _, err := w.response(); err == nil {
			carried++
		}
	}
	if carried < 1500 {
		t.Errorf("%d of %d connections carried a message", carried, n)
	}
	undisturbed()
	s.fits(t, fmt.Sprint(n, " idle connections"))
}

// What clients say of themselves is kept by their sessions, and has a bound for each.
func TestClientsSayNoMoreThanFits(t *testing.T) {
	t.Parallel()
	s := bounded(t)
	undisturbed := s.others(t)
	s.forgetPeak(t)
	said := func(capabilities string) string {
		return strings.Replace(initializeFrame, `"elicitation":{}`, `"experimental":`+capabilities, 1)
	}
	c := s.caller(t, bystanders, "")
	for name, payload := range map[string]string{
		"lists": `{"a":{"b":[` + strings.Repeat("[],", 1_300_000) + `[]]}}`, "objects": `{"a":{"b":[` + strings.Repeat(`{"a":1},`, 500_000) + `{}]}}`,
		"numbers": `{"a":{"b":[` + strings.Repeat("7e-320,", 500_000) + `1]}}`,
	} {
		for range 20 {
			if r := c.must(t, http.MethodPost, plainHeader(), said(payload)); r.limit() != "max_client_bytes" || r.header.Get("Mcp-Session-Id") != "" {
				t.Fatalf("%s: %d %.300s", name, r.status, r.body)
			}
		}
	}
	fits := said(`{"a":{"b":[` + strings.Repeat("[],", 150) + `[]]}}`)
	for range 300 {
		if r := c.must(t, http.MethodPost, plainHeader(), fits); r.header.Get("Mcp-Session-Id") == "" {
			t.Fatalf("%d %.300s", r.status, r.body)
		}
	}
	undisturbed()
	s.fits(t, "clients that say much of themselves")
}
