package incidents

import (
	"errors"
	"flag"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/changes"
	"github.com/vitrine-mcp/vitrine/internal/report"
	"github.com/vitrine-mcp/vitrine/server"
)

// The history counts steps by a clock of the test: it goes on when all calls of a step are over, so that nothing
// depends on the speed of the machine.
var now atomic.Int64

const (
	before = 72 // steps of ten seconds
	after  = 40
)

func TestMain(m *testing.M) {
	flag.Parse()
	if *hold == 0 {
		now.Store(time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC).UnixNano())
		changes.SetClock(func() time.Time { return time.Unix(0, now.Load()) })
	}
	os.Exit(m.Run())
}

// An incident is what changes, and what the first line of the page must say.
type incident struct {
	name string
	// happens changes a call of a tool.
	happens func(call *server.Call, tool string, took *time.Duration, size *int) error
	// The clients of newVersion send wrong arguments, or wait no longer than patience.
	newVersion string
	wrong      bool
	patience   time.Duration

	unauthorized string // a user whose scopes were withdrawn
	crowd        bool   // the batch client runs six times

	want    []string
	slow    bool   // the first of all lines is meant; it is about time
	class   string // of the requests behind the line; "": any
	example string // of what went wrong in them
}

func incidents() []*incident {
	return []*incident{
		{name: "a new version of a client sends texts for numbers", newVersion: "2.0.0", wrong: true,
			want: []string{"caller errors", "assistant 2.0.0", "arguments", "first seen", "none"}, class: "caller_error", example: "/number: must be an integer, got string"},
		{name: "the scopes of a user were withdrawn", unauthorized: "grace", want: []string{"rejections", "grace", "refused"}, class: "rejected",
			example: "this needs the scopes shop"},
		{name: "the database of two tools refuses half of the connections", want: []string{"errors", "order", "refund", "tool_error"}, class: "error", example: "connection refused",
			happens: func(call *server.Call, tool string, _ *time.Duration, _ *int) error {
				if (tool == "order" || tool == "refund") && rand.IntN(2) == 0 {
					return errors.New("connection refused")
				}
				return nil
			}},
		{name: "a tool returns its whole table", want: []string{"since", "answer bytes", "tool search"},
			happens: func(_ *server.Call, tool string, _ *time.Duration, size *int) error {
				if tool == "search" {
					*size *= 12
				}
				return nil
			}},
		{name: "a new version of a client hangs up after 20 ms", newVersion: "2.0.0", patience: 20 * time.Millisecond,
			want: []string{"cancellations", "assistant 2.0.0", "client_"}, class: "cancelled"},
		{name: "a handler panics", want: []string{"errors", "tool export"}, class: "panic", example: "panic: no rows",
			happens: func(_ *server.Call, tool string, _ *time.Duration, _ *int) error {
				if tool == "export" {
					panic("no rows")
				}
				return nil
			}},
		{name: "a client calls six times as often", crowd: true, want: []string{"calls", "batch"}},
		{name: "the calls of one user run into the deadline", want: []string{"cancellations", "ada", "deadline", "phase running"}, class: "cancelled", example: "deadline of 500ms",
			happens: func(call *server.Call, _ string, took *time.Duration, _ *int) error {
				if call.Principal.Subject == "ada" {
					*took = time.Minute
				}
				return nil
			}},
		{name: "the backend of a tool is slow", slow: true, want: []string{"since", "running time", "tool refund"},
			happens: func(_ *server.Call, tool string, took *time.Duration, _ *int) error {
				if tool == "refund" {
					*took = 480 * time.Millisecond
				}
				return nil
			}},
	}
}

// The first line of /debug/changes names the true cause of an incident, and leads to its requests. Lines about
// times are left out: a machine that becomes busy makes calls slower, which is a change as well. They are not
// left out for the incident whose calls take twelve times as long: no busy machine makes one tool that slow.
func TestFirstLineNamesTheCause(t *testing.T) {
	var shops []*shop
	for _, in := range incidents() {
		s := open(t, in)
		s.connect(t, "desk", "4.2.9", "ada")
		s.connect(t, "desk", "4.2.9", "grace")
		s.connect(t, "batch", "0.3", "robot")
		s.connect(t, "assistant", "1.9.0", "edsger")
		s.connect(t, "assistant", "1.9.0", "barbara")
		shops = append(shops, s)
	}
	var prometheus string
	if *hold > 0 {
		prometheus = scrape(t, shops)
	}
	run(shops, before)
	for _, s := range shops {
		s.on.Store(true)
		if s.in.newVersion != "" {
			s.callers = s.callers[:3]
			s.connect(t, "assistant", s.in.newVersion, "edsger")
			s.connect(t, "assistant", s.in.newVersion, "barbara")
		}
		for range 5 {
			if s.in.crowd {
				s.connect(t, "batch", "0.3", "robot")
			}
		}
	}
	run(shops, after)
	if *hold > 0 {
		drill(t, shops, prometheus)
	}
	for _, s := range shops {
		t.Run(s.in.name, func(t *testing.T) {
			var lines []report.Change
			for _, c := range s.changed(t).Changes {
				t.Log(c.Score, c.Text, c.Example)
				if s.in.slow || !strings.HasSuffix(c.Measure, "time") {
					lines = append(lines, c)
				}
			}
			if len(lines) == 0 {
				t.Fatal("nothing has changed")
			}
			for _, want := range s.in.want {
				if !strings.Contains(lines[0].Text, want) {
					t.Errorf("the first line does not have %q: %s", want, lines[0].Text)
				}
			}
			if s.in.example != "" && !strings.Contains(lines[0].Example, s.in.example) {
				t.Errorf("the example is %q, want %q", lines[0].Example, s.in.example)
			}
			s.leadsToRequests(t, lines[0])
		})
	}
}

// run makes the calls of so many steps.
func run(shops []*shop, steps int) {
	for step := range steps {
		next := time.After(changes.StepSeconds * time.Second)
		var calls sync.WaitGroup
		for _, s := range shops {
			s.call(step, &calls)
		}
		calls.Wait()
		if *hold > 0 {
			<-next
		}
		now.Add(changes.StepSeconds * int64(time.Second))
	}
}

// leadsToRequests follows the link of a line.
func (s *shop) leadsToRequests(t *testing.T, c report.Change) {
	var traces report.Traces
	get(t, s.admin+c.Requests, &traces)
	if s.in.class == "" {
		return
	}
	for _, row := range traces.Traces {
		if row.Class == s.in.class {
			return
		}
	}
	t.Errorf("%s has no request of class %s", c.Requests, s.in.class)
}
