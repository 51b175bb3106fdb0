package attack

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A flood is an attack by numbers. Attackers run in a process of their own, at the lowest
// priority, so that on a machine of few cores they take the server's time and not that of the
// callers whose latency is measured.
type flood struct {
	kind string
	// memory is the largest resident set, in bytes.
	memory int64
	// what the well-behaved callers call, and what the capacity is measured with: by so many clients.
	what    string // a key of requests
	clients int
	args    []string // of the server
}

var floods = []flood{
	{kind: "load", memory: floodBudget / 2, what: "work", clients: workSlots, args: []string{
		"--max-in-flight-total", strconv.Itoa(workSlots), "--max-queue", strconv.Itoa(workSlots)}},
	{kind: "pipeline", memory: floodBudget / 2, what: "echo", clients: 16},
	{kind: "idle", memory: floodBudget / 2, what: "echo", clients: 16, args: []string{"--max-connections", "6000"}}, // more than idlers
	{kind: "slow", memory: floodBudget, what: "echo", clients: 16},
	{kind: "hangup", memory: floodBudget / 2, what: "echo", clients: 16},
	{kind: "unknown", memory: floodBudget / 2, what: "echo", clients: 16},
}

const (
	// floodBudget is the memory that the server may take, in bytes.
	floodBudget = 1 << 30
	// loadFactor is how many times its capacity a server is sent by the flood of load.
	loadFactor = 10
	// workSlots is how many calls of work run at once. So a server can answer 320 of them in a second,
	// and has time to refuse ten times as many.
	workSlots = 64
)

// Each flood meets ten callers who ask at a tenth of what the server can do, and a caller that asks once a second. What is not a matter
// of the clock holds in every run: answers are right, every request is accounted for, memory has
// its bound, nothing of the attackers is left when they have gone, and all is served then. With
// -long the others are also served in time, during the flood and a second after its end.
func TestFloodsTakeTheServerFromNobody(t *testing.T) {
	quiet, during, rest := 200*time.Millisecond, *length, 200*time.Millisecond
	if *long {
		quiet, during, rest = 5*time.Second, time.Minute, time.Second
	}
	for _, f := range floods {
		t.Run(f.kind, func(t *testing.T) { // one after the other: each wants all cores
			args := append([]string{"--max-memory", strconv.Itoa(floodBudget)}, f.args...)
			s, calm := attacked(t, args...), attacked(t, args...)
			rate := s.capacity(t, requests[f.what], f.clients, quiet)
			both := crowds{s, calm, f.what, rate / 10}
			before := both.ask(t, quiet, nil)
			s.forgetPeak(t)
			attack := s.army(t, 19, f.kind, during, loadFactor*rate)
			under := both.ask(t, during, attack.ended)
			var done attackers
			attack.result(t, &done)
			peak := s.memory(t, "VmHWM")
			time.Sleep(rest)
			if !*long { // how soon is a matter of the clock
				s.awaitInFlight(t, "", 0)
			}
			left, err := s.inFlight("")
			after := both.ask(t, quiet, nil)
			t.Logf("capacity %.0f/s, good callers %.0f/s; attackers: %s, %.1f of the capacity; largest resident set %d MiB\n"+
				"  before %v\n  during %v\n  after  %v", rate, rate/10, done, done.factor(rate), peak>>20, before, under, after)
			f.attacked(t, done, rate)
			if n := s.metrics(t).sum("vitrine_limit_reached_total", `limit="max_connections"`); n > 0 && f.kind == "idle" {
				t.Errorf("%.0f times a connection found no room", n)
			}
			if peak > f.memory {
				t.Errorf("the resident set had %d MiB, and may have %d", peak>>20, f.memory>>20)
			}
			if err != nil || left > 0 {
				t.Errorf("%v after the flood %d calls of attackers are in flight: %v", rest, left, err)
			}
			under.right(t, "during the flood")
			after.right(t, "after the flood")
			if after.attacked.Answered < after.attacked.Asked*9/10 {
				t.Errorf("others are not served after the flood: %v", after)
			}
			if *long {
				under.inTime(t, "during the flood")
				under.quietInTime(t, "during the flood")
				after.inTime(t, "a second after the flood")
			}
			s.conserved(t)
		})
	}
}

// attacked checks that the attackers did what the flood is named after. In the short form none of it
// depends on the clock, because a flood goes on until it has done that, or for very long.
func (f flood) attacked(t *testing.T, done attackers, capacity float64) {
	t.Helper()
	for _, want := range map[string][]struct {
		what string
		got  int64
		of   int
	}{
		"load":     {{"connections at once", done.Held, loaders()}},
		"pipeline": {{"connections at once", done.Held, pipeliners()}},
		"idle":     {{"connections at once", done.Held, idlers()}},
		"slow":     {{"connections at once", done.Held, readers()}},
		"hangup":   {{"calls", done.Requests, hangers()}},
		"unknown":  {{"session ids", done.Requests, unknownIDs()}, {"refused session ids", done.Responses, unknownIDs()}},
	}[f.kind] {
		if want.got < int64(want.of) {
			t.Errorf("the attackers had %d %s of %d", want.got, want.what, want.of)
		}
	}
	if factor := done.factor(capacity); *long && f.kind == "load" && factor < loadFactor*0.9 {
		t.Errorf("the server answered or refused %.1f times as much as it can do, want %d", factor, loadFactor)
	}
	// What a server does not read cannot be sent over TCP. It is sent more than it can answer if the
	// connections are full: half of them, because the server is just reading from others.
	if *long && f.kind == "pipeline" && done.Full < int64(pipeliners()/2) {
		t.Errorf("%d of %d connections were full at the end of the flood: the server could have taken more", done.Full, pipeliners())
	}
}

// A running army is a process.
type running struct {
	cmd   *exec.Cmd
	stdin io.Closer
	out   strings.Builder
	err   error
	ended chan struct{} // closed when the process has ended; err and out are valid then
}

// army starts attackers, or a crowd, as this program with other flags and with a priority.
func (s *target) army(t *testing.T, nice int, kind string, d time.Duration, rate float64, flags ...string) *running {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := &running{ended: make(chan struct{})}
	r.cmd = exec.Command("nice", append([]string{"-n", strconv.Itoa(nice), self, "-flood", kind, "-flood-host", s.host,
		"-flood-time", d.String(), "-flood-rate", fmt.Sprint(rate)}, flags...)...)
	if *long {
		r.cmd.Args = append(r.cmd.Args, "-long")
	}
	r.cmd.Stdout, r.cmd.Stderr = &r.out, os.Stderr
	if r.stdin, err = r.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.cmd.Process.Kill() }) // it has ended, unless the test failed
	go func() {
		r.err = r.cmd.Wait()
		close(r.ended)
	}()
	return r
}

// result waits for the end of the process, and decodes what it has printed.
func (r *running) result(t *testing.T, done any) {
	t.Helper()
	<-r.ended
	if r.err != nil {
		t.Fatalf("%v: %v", r.cmd.Args, r.err)
	}
	if err := json.NewDecoder(strings.NewReader(r.out.String())).Decode(done); err != nil {
		t.Fatalf("%v said %q", r.cmd.Args, r.out.String())
	}
}

// capacity returns how many calls the server answers in a second, to clients that ask again as soon
// as they are answered.
func (s *target) capacity(t *testing.T, what request, clients int, d time.Duration) float64 {
	t.Helper()
	end := time.Now().Add(d)
	counts := make(chan int, clients)
	raw := s.rawEcho(1).set("Mcp-Name", what("").tool)
	raw.body = what("x").frame(1, true)
	text := raw.String()
	for i := range clients {
		go func() {
			n := 0
			defer func() { counts <- n }()
			w, err := s.dial(crowdAddress(i))
			if err != nil {
				return
			}
			defer w.Close()
			for ; time.Now().Before(end); n++ {
				if _, err := io.WriteString(w, text); err != nil {
					return
				}
				if r, err := w.response(); err != nil || r.text() != "x" {
					return
				}
			}
		}()
	}
	total := 0
	for range clients {
		total += <-counts
	}
	if total == 0 {
		t.Fatal("the server answers nobody")
	}
	return float64(total) / d.Seconds()
}
