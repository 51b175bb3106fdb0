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
	// late is set where the attackers take so much time of the processors that the answers to others
	// come late.
	late bool
}

var floods = []flood{
	{kind: "load", memory: 256 << 20},
	{kind: "idle", memory: 256 << 20},
	{kind: "slow", memory: floodBudget, late: true},
	{kind: "hangup", memory: 256 << 20},
	{kind: "unknown", memory: 256 << 20},
}

// floodBudget is the memory that the server may take, in bytes.
const floodBudget = 1 << 30

// Each flood meets ten callers who ask at a tenth of what the server can do. What is not a matter
// of the clock holds in every run: answers are right, every request is accounted for, memory has
// its bound, and all is served when the flood has ended. With -long nine of ten calls are answered
// in time, too. Latencies are printed.
func TestFloodsTakeTheServerFromNobody(t *testing.T) {
	quiet, during, rest := 200*time.Millisecond, 700*time.Millisecond, 200*time.Millisecond
	if *long {
		quiet, during, rest = 10*time.Second, time.Minute, time.Second
	}
	for _, f := range floods {
		t.Run(f.kind, func(t *testing.T) { // one after the other: each wants all cores
			s := attacked(t, "--max-memory", strconv.Itoa(floodBudget))
			rate := s.capacity(t, quiet)
			good := newCrowd(t, s, rate/10)
			before := good.ask(quiet)
			s.forgetPeak(t)
			attack := s.flood(t, f.kind, during, 10*rate)
			under := good.askUntil(during, attack.ended)
			done := attack.result(t)
			peak := s.memory(t, "VmHWM")
			time.Sleep(rest)
			after := good.ask(quiet)
			t.Logf("capacity %.0f/s, good callers %.0f/s; attackers: %s, %.2f of the capacity; largest resident set %d MiB\n"+
				"  before %v\n  during %v\n  after  %v\n  p99 during the flood: %.1f of that before",
				rate, rate/10, done, float64(done.Requests)/done.Took.Seconds()/rate, peak>>20,
				before, under, after, float64(under.p99())/float64(before.p99()))
			f.attacked(t, done)
			if wrong := before.wrong + under.wrong + after.wrong; wrong > 0 {
				t.Errorf("%d answers were wrong", wrong)
			}
			if peak > f.memory {
				t.Errorf("the resident set had %d MiB, and may have %d", peak>>20, f.memory>>20)
			}
			if under.answered == 0 || after.answered < after.asked*9/10 {
				t.Errorf("others were not served: during the flood %v, afterwards %v", under, after)
			}
			if *long && !f.late && under.inTime < under.asked*9/10 {
				t.Errorf("%d of %d calls were answered in time", under.inTime, under.asked)
			}
			if *long && after.inTime < after.asked*9/10 {
				t.Errorf("a second after the flood %d of %d calls were answered in time", after.inTime, after.asked)
			}
		})
	}
}

// attacked checks that the attackers did what the flood is named after. None of it depends on the
// clock, because a flood goes on until it has done that, or for very long.
func (f flood) attacked(t *testing.T, done attackers) {
	t.Helper()
	for _, want := range map[string][]struct {
		what string
		got  int64
		of   int
	}{
		"load":    {{"connections at once", done.Held, loaders()}},
		"idle":    {{"connections at once", done.Held, idlers()}},
		"slow":    {{"connections at once", done.Held, readers()}},
		"hangup":  {{"calls", done.Requests, hangers()}},
		"unknown": {{"session ids", done.Requests, unknownIDs()}, {"refused session ids", done.Responses, unknownIDs()}},
	}[f.kind] {
		if !atLeast(want.got, want.of) {
			t.Errorf("the attackers had %d %s of %d", want.got, want.what, want.of)
		}
	}
	// What a server does not read cannot be sent over TCP. The attackers send more than it can answer
	// if their connections are full: half of them, because the server is just reading from others.
	if *long && f.kind == "load" && done.Full < int64(loaders()/2) {
		t.Errorf("%d of %d connections were full at the end of the flood: the server could have taken more", done.Full, loaders())
	}
}

// A running flood is a process.
type running struct {
	cmd   *exec.Cmd
	out   strings.Builder
	err   error
	ended chan struct{} // closed when the process has ended; err and out are valid then
}

// flood starts the attackers, as this program with other flags.
func (s *target) flood(t *testing.T, kind string, d time.Duration, rate float64) *running {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := &running{ended: make(chan struct{})}
	r.cmd = exec.Command("nice", "-n", "19", self, "-flood", kind, "-flood-host", s.host, "-flood-time", d.String(), "-flood-rate", fmt.Sprint(rate))
	if *long {
		r.cmd.Args = append(r.cmd.Args, "-long")
	}
	r.cmd.Stdout, r.cmd.Stderr = &r.out, os.Stderr
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

// result waits for the end of the attackers, and returns what they have done.
func (r *running) result(t *testing.T) (done attackers) {
	t.Helper()
	<-r.ended
	if r.err != nil {
		t.Fatalf("the attackers: %v", r.err)
	}
	if err := json.NewDecoder(strings.NewReader(r.out.String())).Decode(&done); err != nil {
		t.Fatalf("the attackers said %q", r.out.String())
	}
	return done
}

// capacity returns how many calls of echo the server answers in a second, to callers that ask
// again as soon as they are answered.
func (s *target) capacity(t *testing.T, d time.Duration) float64 {
	t.Helper()
	const clients = 16
	end := time.Now().Add(d)
	counts := make(chan int, clients)
	raw := s.rawEcho(1).String()
	for range clients {
		go func() {
			n := 0
			defer func() { counts <- n }()
			w, err := s.dial(bystanders)
			if err != nil {
				return
			}
			defer w.Close()
			for ; time.Now().Before(end); n++ {
				if _, err := io.WriteString(w, raw); err != nil {
					return
				}
				if _, err := w.response(); err != nil {
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
