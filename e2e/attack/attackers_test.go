package attack

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

var (
	floodKind  = flag.String("flood", "", "attack as this kind of flood, and run no test")
	floodHost  = flag.String("flood-host", "", "host and port of the server")
	floodTime  = flag.Duration("flood-time", time.Second, "how long")
	crowdCalls = flag.String("crowd-calls", "echo", "what the kind crowd calls")
	floodRate  = flag.Float64("flood-rate", 1000, "requests in a second that the kinds load, pipeline and crowd send")
)

// attackers say what they have done.
type attackers struct {
	Connections, Refused, Requests, Responses int64
	Held                                      int64 // connections at once, at the most
	Full                                      int64 // connections that took nothing more when the flood ended
	Took                                      time.Duration
}

func (a attackers) String() string {
	return fmt.Sprintf("%d connections (%d refused, %d at once), %d requests, %d responses, %d connections were full at the end, after %v",
		a.Connections, a.Refused, a.Held, a.Requests, a.Responses, a.Full, a.Took.Round(time.Millisecond))
}

// factor is how many times a rate was answered or refused.
func (a attackers) factor(rate float64) float64 {
	return float64(a.Responses) / a.Took.Seconds() / rate
}

// An army is what the attackers share.
type army struct {
	s *target
	// The flood ends at end, or later if it has not done enough by then, but at last.
	end, last                                       time.Time
	enough                                          func() bool
	ended                                           chan struct{} // closed at the end
	connections, refused, requests, responses, full atomic.Int64

	mu   sync.Mutex // guards the rest
	open map[*wire]struct{}
	held int
}

// runFlood attacks, and prints what was done.
func runFlood() int {
	if *floodKind == "crowd" {
		return runCrowd()
	}
	began := time.Now()
	a := &army{
		s: &target{host: *floodHost}, end: began.Add(*floodTime), ended: make(chan struct{}), open: map[*wire]struct{}{},
		enough: func() bool { return true },
	}
	a.last = a.end.Add(time.Duration(size(int(5*time.Minute), int(patience))))
	kinds := map[string]func(){"load": a.load, "pipeline": a.pipeline, "idle": a.idle, "slow": a.slow, "hangup": a.hangUp, "unknown": a.unknown}
	attack, ok := kinds[*floodKind]
	if !ok {
		fmt.Fprintln(os.Stderr, "no flood", *floodKind)
		return 1
	}
	attack()
	err := json.NewEncoder(os.Stdout).Encode(attackers{
		Connections: a.connections.Load(), Refused: a.refused.Load(), Requests: a.requests.Load(), Responses: a.responses.Load(),
		Held: int64(a.held), Full: a.full.Load(), Took: time.Since(began),
	})
	if err != nil {
		return 1
	}
	return 0
}

// size returns the number for the long form, or that for the short one.
func size(longForm, short int) int {
	if *long {
		return longForm
	}
	return short
}

// The numbers of the floods.
func loaders() int    { return 400 }
func pipeliners() int { return 200 }
func idlers() int     { return size(5000, 500) }
func readers() int    { return size(1000, 200) }
func hangers() int    { return 500 }
func unknownIDs() int { return size(1_000_000, 10_000) }

// andSpare returns how many attackers there are so that n have a connection at once: the server ends some, which then dial again.
func andSpare(n int) int { return n + n/10 }

// holds reports whether n connections were open at once.
func (a *army) holds(n int) func() bool {
	return func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.held >= n
	}
}

// each lets n attackers attack at once until the flood ends, and waits for them.
func (a *army) each(n int, attack func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { attack(i) })
	}
	go a.endInTime()
	all.Wait()
}

// endInTime ends the flood. Who waits for the server then has a moment more.
func (a *army) endInTime() {
	for now := time.Now(); now.Before(a.last) && (now.Before(a.end) || !a.enough()); now = time.Now() {
		time.Sleep(10 * time.Millisecond)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	close(a.ended)
	for w := range a.open {
		_ = w.SetDeadline(time.Now().Add(stragglers))
	}
}

// stragglers is how long an attacker waits for the server after the end of the flood.
const stragglers = 200 * time.Millisecond

// dial connects, from one of four addresses; nil if the server does not want it.
func (a *army) dial(i int) *wire {
	w, err := a.s.dial(attackerAddress(i))
	if err != nil {
		a.refused.Add(1)
		time.Sleep(10 * time.Millisecond)
		return nil
	}
	a.connections.Add(1)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open[w] = struct{}{}
	a.held = max(a.held, len(a.open))
	_ = w.SetDeadline(a.last)
	if a.over() {
		_ = w.SetDeadline(time.Now().Add(stragglers))
	}
	return w
}

// close closes a connection.
func (a *army) close(w *wire) {
	a.mu.Lock()
	delete(a.open, w)
	a.mu.Unlock()
	w.Close()
}

// over reports whether the flood has ended.
func (a *army) over() bool {
	select {
	case <-a.ended:
		return true
	default:
		return false
	}
}

// send writes requests at a rate, without waiting for responses, and reads those meanwhile. If
// the server reads more slowly, what was due is sent as soon as it can be.
func (a *army) send(i int, rate float64, raw func() string) {
	for !a.over() {
		w := a.dial(i)
		if w == nil {
			continue
		}
		read := make(chan struct{})
		go func() {
			defer close(read)
			for {
				if _, err := w.response(); err != nil {
					return
				}
				a.responses.Add(1)
			}
		}()
		began, sent := time.Now(), 0
		for !a.over() {
			due := min(int(time.Since(began).Seconds()*rate)-sent, 50)
			if due <= 0 {
				time.Sleep(5 * time.Millisecond)
				continue
			}
			var b strings.Builder
			for range due {
				b.WriteString(raw())
			}
			if _, err := io.WriteString(w, b.String()); err != nil {
				if a.over() && errors.Is(err, os.ErrDeadlineExceeded) {
					a.full.Add(1)
				}
				break
			}
			sent += due
			a.requests.Add(int64(due))
		}
		if tcp, ok := w.Conn.(*net.TCPConn); ok {
			_ = tcp.CloseWrite()
		}
		<-read
		a.close(w)
	}
}

// load calls at a rate, whether or not earlier calls were answered: each call that is due goes over
// a connection on which no call waits.
func (a *army) load() {
	raw := a.s.rawEcho(1).set("Mcp-Name", "sleep")
	raw.body = work("").frame(1, true)
	text := raw.String()
	began, sent := time.Now(), atomic.Int64{}
	a.enough = a.holds(loaders())
	a.each(andSpare(loaders()), func(i int) {
		for !a.over() {
			w := a.dial(i)
			if w == nil {
				continue
			}
			for err := error(nil); err == nil && !a.over(); {
				if sent.Add(1) > int64(time.Since(began).Seconds()*(*floodRate)) {
					sent.Add(-1)
					time.Sleep(10 * time.Millisecond)
					continue
				}
				a.requests.Add(1)
				if _, err = io.WriteString(w, text); err == nil {
					_, err = w.response()
				}
				if err == nil {
					a.responses.Add(1)
				}
			}
			a.close(w)
		}
	})
}

// pipeline sends many times what the server can answer.
func (a *army) pipeline() {
	raw := a.s.rawEcho(1).String()
	a.enough = a.holds(pipeliners())
	a.each(andSpare(pipeliners()), func(i int) { a.send(i, *floodRate/float64(pipeliners()), func() string { return raw }) })
}

// idle opens connections and sends nothing, or half a head, over them.
func (a *army) idle() {
	a.enough = a.holds(idlers())
	a.each(idlers(), func(i int) {
		for !a.over() {
			w := a.dial(i)
			if w == nil {
				continue
			}
			if i%2 == 1 {
				_, _ = io.WriteString(w, "POST /mcp HTTP/1.1\r\nHost: localhost\r\n")
			}
			_, _ = w.in.ReadByte() // until the server closes it, or the end
			a.close(w)
		}
	})
}

// slow asks for much, again and again, and reads little of it.
func (a *army) slow() {
	a.enough = a.holds(readers())
	big := a.s.rawEcho(1).set("Mcp-Name", "big")
	big.body = call{tool: "big", arguments: `{"bytes":262144}`}.frame(1, true)
	raw := strings.Repeat(big.String(), 40) // more than the kernel takes for a connection
	a.each(andSpare(readers()), func(i int) {
		for !a.over() {
			w := a.dial(i)
			if w == nil {
				continue
			}
			if tcp, ok := w.Conn.(*net.TCPConn); ok {
				_ = tcp.SetReadBuffer(4 << 10)
			}
			_, err := io.WriteString(w, raw)
			a.requests.Add(40)
			for err == nil && !a.over() {
				_, err = io.CopyN(io.Discard, w, 1000)
				time.Sleep(100 * time.Millisecond)
			}
			a.close(w)
		}
	})
}

// hangUp calls and goes away, with a reset, at some moment of the call.
func (a *army) hangUp() {
	sleep := a.s.rawEcho(1).set("Mcp-Name", "sleep")
	sleep.body = call{tool: "sleep", arguments: `{"ms":60000}`}.frame(1, true)
	raws := []string{a.s.rawEcho(1).String(), sleep.String()}
	a.enough = func() bool { return a.requests.Load() >= int64(hangers()) }
	a.each(hangers(), func(i int) {
		for !a.over() {
			w := a.dial(i)
			if w == nil {
				continue
			}
			if _, err := io.WriteString(w, raws[rand.IntN(2)]); err == nil {
				a.requests.Add(1)
			}
			time.Sleep(rand.N(20 * time.Millisecond))
			if tcp, ok := w.Conn.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0)
			}
			a.close(w)
		}
	})
}

// unknown sends session ids that the server has never made, and waits until it has refused them.
func (a *army) unknown() {
	const clients = 50
	a.enough = func() bool { return a.responses.Load() >= int64(unknownIDs()) }
	post := a.s.rawEcho(1).without("MCP-Protocol-Version").without("Mcp-Method").without("Mcp-Name")
	post.body = call{tool: "echo", arguments: `{"text":"x"}`}.frame(1, false)
	raw := post.with("Mcp-Session-Id: ????????????????????????").String()
	a.each(clients, func(i int) {
		a.send(i, 1e6, func() string {
			return strings.Replace(raw, "????????????????????????", fmt.Sprintf("%024x", rand.Uint64()), 1)
		})
	})
}
