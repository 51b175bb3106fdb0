package incidents

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/changes"
	"github.com/vitrine-mcp/vitrine/internal/report"
	"github.com/vitrine-mcp/vitrine/server"
)

// The steps of the history are a fiftieth as long as those of an operator's server, so that ten minutes of it are
// twelve seconds.
const (
	step   = changes.StepSeconds * time.Second / 50
	minute = 6 * step
)

func TestMain(m *testing.M) {
	changes.SetStepLength(step)
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil { // the tests wait most of the time
		panic(err)
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

	want  []string
	class string // of the requests behind the line; "": any
}

func incidents() []*incident {
	return []*incident{
		{name: "a new version of a client sends texts for numbers", newVersion: "2.0.0", wrong: true,
			want: []string{"caller errors", "assistant 2.0.0", "arguments", "first seen"}, class: "caller_error"},
		{name: "the scopes of a user were withdrawn", unauthorized: "grace", want: []string{"rejections", "grace", "refused"}, class: "rejected"},
		{name: "the database of two tools refuses half of the connections", want: []string{"errors", "order", "refund", "tool_error"}, class: "error",
			happens: func(call *server.Call, tool string, _ *time.Duration, _ *int) error {
				if (tool == "order" || tool == "refund") && rand.IntN(2) == 0 {
					return errors.New("connection refused")
				}
				return nil
			}},
		{name: "a tool returns its whole table", want: []string{"answer bytes", "tool search"},
			happens: func(_ *server.Call, tool string, _ *time.Duration, size *int) error {
				if tool == "search" {
					*size *= 12
				}
				return nil
			}},
		{name: "a new version of a client hangs up after 15 ms", newVersion: "2.0.0", patience: 15 * time.Millisecond,
			want: []string{"cancellations", "assistant 2.0.0", "client_", "phase running"}, class: "cancelled"},
		{name: "a handler panics", want: []string{"errors", "tool export"}, class: "panic",
			happens: func(_ *server.Call, tool string, _ *time.Duration, _ *int) error {
				if tool == "export" {
					panic("no rows")
				}
				return nil
			}},
		{name: "a client calls six times as often", crowd: true, want: []string{"calls", "batch"}},
		{name: "the calls of one user run into the deadline", want: []string{"cancellations", "ada", "deadline", "phase running"}, class: "cancelled",
			happens: func(call *server.Call, _ string, took *time.Duration, _ *int) error {
				if call.Principal.Subject == "ada" {
					*took = time.Minute
				}
				return nil
			}},
	}
}

// The first line of /debug/changes names the true cause of an incident, and leads to its requests.
func TestFirstLineNamesTheCause(t *testing.T) {
	for _, in := range incidents() {
		t.Run(in.name, func(t *testing.T) {
			t.Parallel()
			s := open(t, in)
			old, leave := context.WithCancel(t.Context())
			all, stop := context.WithCancel(t.Context())
			defer s.clients.Wait()
			defer stop()
			const every = 60 * time.Millisecond
			s.start(all, caller{"desk", "4.2.9", "ada"}, every)
			s.start(all, caller{"desk", "4.2.9", "grace"}, every)
			s.start(all, caller{"batch", "0.3", "robot"}, every)
			s.start(old, caller{"assistant", "1.9.0", "edsger"}, every)
			s.start(old, caller{"assistant", "1.9.0", "barbara"}, every)
			wait(all, 12*minute)
			s.on.Store(true)
			leave()
			for range 5 {
				if in.crowd {
					s.start(all, caller{"batch", "0.3", "robot"}, every)
				}
			}
			version := "1.9.0"
			if in.newVersion != "" {
				version = in.newVersion
			}
			s.start(all, caller{"assistant", version, "edsger"}, every)
			s.start(all, caller{"assistant", version, "barbara"}, every)
			wait(all, 5*minute)
			page := s.changed(t)
			for _, c := range page.Changes {
				t.Log(c.Score, c.Text)
			}
			if len(page.Changes) == 0 {
				t.Fatal("nothing has changed")
			}
			first := page.Changes[0]
			for _, want := range in.want {
				if !strings.Contains(first.Text, want) {
					t.Errorf("the first line does not have %q: %s", want, first.Text)
				}
			}
			s.leadsToRequests(t, first)
		})
	}
}

// leadsToRequests follows the link of a line.
func (s *shop) leadsToRequests(t *testing.T, c report.Change) {
	var traces report.Traces
	get(t, s.admin+"/"+c.Requests, &traces)
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
