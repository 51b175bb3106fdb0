package attack

import (
	"encoding/json"
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
	floodKind = flag.String("flood", "", "attack as this kind of flood, and run no test")
	floodHost = flag.String("flood-host", "", "host and port of the server")
	floodTime = flag.Duration("flood-time", time.Second, "how long")
	floodRate = flag.Float64("flood-rate", 1000, "requests in a second that the kind load sends")
)

// attackers say what they have done.
type attackers struct {
	Connections, Refused, Requests, Responses int64
}

func (a attackers) String() string {
	return fmt.Sprintf("%d connections (%d refused), %d requests, %d responses", a.Connections, a.Refused, a.Requests, a.Responses)
}

// An army is what the attackers share.
type army struct {
	s                                         *target
	end                                       time.Time
	connections, refused, requests, responses atomic.Int64
}

// runFlood attacks, and prints what was done.
func runFlood() int {
	a := &army{s: &target{host: *floodHost}, end: time.Now().Add(*floodTime)}
	kinds := map[string]func(){"load": a.load, "idle": a.idle, "slow": a.slow, "hangup": a.hangUp, "unknown": a.unknown}
	attack, ok := kinds[*floodKind]
	if !ok {
		fmt.Fprintln(os.Stderr, "no flood", *floodKind)
		return 1
	}
	attack()
	err := json.NewEncoder(os.Stdout).Encode(attackers{a.connections.Load(), a.refused.Load(), a.requests.Load(), a.responses.Load()})
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

// each lets n attackers attack at once, and waits for them.
func each(n int, attack func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { attack(i) })
	}
	all.Wait()
}

// dial connects, from one of four addresses; nil if the server does not want it.
func (a *army) dial(i int) *wire {
	w, err := a.s.dial(fmt.Sprintf("127.0.0.%d", 66+i%4))
	if err != nil {
		a.refused.Add(1)
		time.Sleep(10 * time.Millisecond)
		return nil
	}
	a.connections.Add(1)
	_ = w.SetDeadline(a.end.Add(200 * time.Millisecond))
	return w
}

// over reports whether the flood has ended.
func (a *army) over() bool { return time.Now().After(a.end) }

// send writes requests at a rate, without waiting for responses, and reads those meanwhile. If
// the server reads more slowly, what was due is sent as soon as it can be.
func (a *army) send(i int, rate float64, limit *atomic.Int64, raw func() string) {
	for !a.over() && limit.Load() > 0 {
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
			if limit.Add(-int64(due)) < 0 {
				break
			}
			var b strings.Builder
			for range due {
				b.WriteString(raw())
			}
			if _, err := io.WriteString(w, b.String()); err != nil {
				break
			}
			sent += due
			a.requests.Add(int64(due))
		}
		if tcp, ok := w.Conn.(*net.TCPConn); ok {
			_ = tcp.CloseWrite()
		}
		<-read
		w.Close()
	}
}

const endless = 1 << 62

// load sends many times what the server can answer.
func (a *army) load() {
	const clients = 200
	raw := a.s.rawEcho(1).String()
	var limit atomic.Int64
	limit.Store(endless)
	each(clients, func(i int) { a.send(i, *floodRate/clients, &limit, func() string { return raw }) })
}

// idle opens connections and sends nothing, or half a head, over them.
func (a *army) idle() {
	n := size(5000, 500)
	each(n, func(i int) {
		for !a.over() {
			w := a.dial(i)
			if w == nil {
				continue
			}
			if i%2 == 1 {
				_, _ = io.WriteString(w, "POST /mcp HTTP/1.1\r\nHost: localhost\r\n")
			}
			_, _ = w.in.ReadByte() // until the server closes it, or the end
			w.Close()
		}
	})
}

// slow asks for much, again and again, and reads little of it.
func (a *army) slow() {
	n := size(1000, 200)
	big := a.s.rawEcho(1).set("Mcp-Name", "big")
	big.body = call{tool: "big", arguments: `{"bytes":262144}`}.frame(1, true)
	raw := strings.Repeat(big.String(), 40) // more than the kernel takes for a connection
	each(n, func(i int) {
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
			w.Close()
		}
	})
}

// hangUp calls and goes away, with a reset, at some moment of the call.
func (a *army) hangUp() {
	sleep := a.s.rawEcho(1).set("Mcp-Name", "sleep")
	sleep.body = call{tool: "sleep", arguments: `{"ms":60000}`}.frame(1, true)
	raws := []string{a.s.rawEcho(1).String(), sleep.String()}
	each(500, func(i int) {
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
			w.Close()
		}
	})
}

// unknown sends session ids that the server has never made.
func (a *army) unknown() {
	const clients = 50
	var limit atomic.Int64
	limit.Store(int64(size(1_000_000, 20_000)))
	post := a.s.rawEcho(1).without("MCP-Protocol-Version").without("Mcp-Method").without("Mcp-Name")
	post.body = call{tool: "echo", arguments: `{"text":"x"}`}.frame(1, false)
	raw := post.with("Mcp-Session-Id: ????????????????????????").String()
	each(clients, func(i int) {
		a.send(i, 1e6, &limit, func() string {
			return strings.Replace(raw, "????????????????????????", fmt.Sprintf("%024x", rand.Uint64()), 1)
		})
	})
}
