package changes

import (
	"flag"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/needs"
)

// An incident changes calls from a time on.
type incident struct {
	name   string
	change func(tr *traffic, o *Observation)
	extra  func(f *flow) float64
	want   []string // texts of the first line
}

const (
	begins = 61*time.Minute + 20*time.Second
	looks  = 66 * time.Minute
)

func incidents() []incident {
	tool := func(o *Observation, names ...string) bool { return slices.Contains(names, o.Target) }
	return []incident{
		{name: "a tool returns ten times as much", want: []string{MeasureAnswerBytes, "search_orders"},
			change: func(_ *traffic, o *Observation) {
				if tool(o, "search_orders") {
					o.AnswerBytes *= 10
				}
			}},
		{name: "one tenant sends invalid arguments", want: []string{MeasureCallerErrors, "user-5", "arguments"},
			change: func(_ *traffic, o *Observation) {
				if o.Subject == "user-5" {
					o.Outcome, o.Reason, o.Phase, o.Running, o.AnswerBytes = "caller_error", "arguments", "", 0, 100
				}
			}},
		{name: "the scopes of a token were withdrawn", want: []string{MeasureRejected, "user-8", "refused"},
			change: func(_ *traffic, o *Observation) {
				if o.Subject == "user-8" {
					*o = Observation{Client: o.Client, Version: o.Version, Subject: o.Subject, Method: o.Method, Target: o.Target, Outcome: "rejected", Reason: "refused"}
				}
			}},
		{name: "the calls of one principal time out on one tool", want: []string{MeasureCancelled, "user-3", "issue_refund", "deadline", "running"},
			change: func(_ *traffic, o *Observation) {
				if o.Subject == "user-3" && tool(o, "issue_refund") {
					o.Outcome, o.Reason, o.Phase, o.Running = "cancelled", "deadline", "running", 30*time.Second
				}
			}},
		{name: "a client begins to hang up after 800 ms", want: []string{MeasureCancelled, "cli", "client_disconnect"},
			change: func(_ *traffic, o *Observation) {
				if o.Client == "cli" && o.Running > 800*time.Millisecond {
					o.Outcome, o.Reason, o.Phase, o.Running = "cancelled", "client_disconnect", "running", 800*time.Millisecond
				}
			}},
		{name: "a class fills because of one tool", want: []string{MeasureRunning, "forecast"},
			change: func(tr *traffic, o *Observation) {
				if tool(o, "forecast") {
					o.Running *= 12
				}
				if tool(o, "forecast", "export") {
					o.Queued += time.Duration(tr.random.ExpFloat64() * float64(3*time.Second))
				}
			}},
		{name: "calls of a tool wait for a lock in a middleware", want: []string{MeasureRunning, "get_order", "phase middleware quota"},
			change: func(tr *traffic, o *Observation) {
				if tool(o, "get_order") && tr.random.Float64() < 0.7 {
					o.Running += 400 * time.Millisecond
					o.Phase = PhaseMiddleware + "quota"
				}
			}},
		{name: "the writes to one client are slow", want: []string{MeasureWriting, "cli"},
			change: func(tr *traffic, o *Observation) {
				if o.Client == "cli" {
					o.Writing += time.Duration(tr.random.ExpFloat64() * float64(400*time.Millisecond))
				}
			}},
		{name: "a dependency of two tools fails", want: []string{MeasureErrors, "issue_refund", "export", "tool_error"},
			change: func(tr *traffic, o *Observation) {
				if tool(o, "issue_refund", "export") && tr.random.Float64() < 0.5 {
					o.Outcome, o.Reason, o.AnswerBytes = "error", "tool_error", 80
				}
			}},
		{name: "a client is gone", want: []string{MeasureCalls, "cli"},
			extra: func(f *flow) float64 {
				if f.client == "cli" {
					return 0
				}
				return 1
			}},
		{name: "a client calls four times as often", want: []string{MeasureCalls, "batch"},
			extra: func(f *flow) float64 {
				if f.client == "batch" {
					return 4
				}
				return 1
			}},
		{name: "the answers of a client that has gone away are lost", want: []string{MeasureExpired, "cli", "export", "max_event_bytes_total", "new", "a second, before none"},
			change: func(tr *traffic, o *Observation) {
				if o.Client == "cli" {
					if tool(o, "export") {
						tr.lose(o, "max_event_bytes_total")
					}
					o.Outcome = "" // it makes no calls
				}
			}},
		{name: "the large results of a tool take the room of stored answers", want: []string{MeasureAnswerBytes, "search_orders"},
			change: func(tr *traffic, o *Observation) {
				if tool(o, "search_orders") {
					o.AnswerBytes *= 10
				}
				if o.Client == "desk-agent" && tr.random.Float64() < 0.2 {
					tr.lose(o, "max_event_bytes_total")
				}
			}},
		{name: "a new version that replaces the old one sends invalid arguments", want: []string{MeasureCallerErrors, "desk-agent 4.3.0", "arguments", "first seen"},
			change: func(tr *traffic, o *Observation) {
				if o.Client == "desk-agent" && tr.random.Float64() < 0.995 { // a few calls of the old one fail as well
					o.Version = "4.3.0"
				}
				if o.Client == "desk-agent" {
					o.Outcome, o.Reason, o.Phase, o.Running, o.AnswerBytes = "caller_error", "arguments", "", 0, 100
				}
			}},
		{name: "a new version of a client cancels while it is asked", want: []string{MeasureCancelled, "desk-agent", "4.3.0", "issue_refund", "blocked", "first seen"},
			change: func(_ *traffic, o *Observation) {
				if o.Client != "desk-agent" {
					return
				}
				o.Version = "4.3.0"
				if tool(o, "issue_refund") {
					o.Outcome, o.Reason, o.Phase, o.Blocked = "cancelled", "client_cancel", "blocked", 5*time.Second
				}
			}},
	}
}

// trafficFlag multiplies the traffic of the tests below. The figures of docs/telemetry.md are those of
// go test ./internal/changes -traffic 10.
var trafficFlag = flag.Int("traffic", 1, "how many `times` as much traffic the tests generate")

// The first line names the true cause, and when it began.
func TestFirstLineNamesTheCause(t *testing.T) {
	for _, in := range incidents() {
		t.Run(in.name, func(t *testing.T) {
			for seed := range uint64(*trafficFlag) {
				tr := newTraffic(100 + seed)
				tr.change = func(o *Observation, at time.Duration) {
					if in.change != nil && at >= begins {
						in.change(tr, o)
					}
				}
				tr.extra = func(f *flow, at time.Duration) float64 {
					if in.extra != nil && at >= begins {
						return in.extra(f)
					}
					return 1
				}
				tr.run(0, looks)
				found := tr.find(looks)
				for i := range found {
					t.Log(found[i].rank, found[i].Score, found[i].Text(time.UTC))
					if found[i].Measure == MeasureRunning {
						assert.NotEqual(t, "running", found[i].Phase, "it says nothing")
					}
				}
				require.NotEmpty(t, found)
				for _, want := range in.want {
					assert.Contains(t, strings.ToLower(found[0].Text(time.UTC)), want)
				}
				most := 40 * time.Second
				if found[0].Measure == MeasureCalls {
					most += time.Minute // a burst may end where the incident begins
				}
				assert.LessOrEqual(t, found[0].Since.Sub(noon.Add(begins)).Abs(), most)
			}
		})
	}
}

// A change that has become smaller is not over before what it has changed is as before.
func TestEndOfAChange(t *testing.T) {
	for _, tt := range []struct {
		name  string
		rest  float64 // how much more the tool returns after five minutes
		lasts bool
		again bool // in the last minutes
	}{
		{name: "a part of it remains", rest: 2.5, lasts: true},
		{name: "it is over", rest: 1},
		{name: "it is over, and comes again", rest: 1, again: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for seed := range uint64(3) {
				tr := newTraffic(200 + seed)
				tr.change = func(o *Observation, at time.Duration) {
					if o.Target != "search_orders" || at < begins {
						return
					}
					factor := tt.rest
					if at < begins+5*time.Minute || tt.again && at >= begins+20*time.Minute {
						factor = 16
					}
					o.AnswerBytes = int(float64(o.AnswerBytes) * factor)
				}
				end := begins + 12*time.Minute
				if tt.again {
					end = begins + 25*time.Minute
				}
				tr.run(0, end)
				found := tr.find(end)
				first := found[slices.IndexFunc(found, func(c Change) bool { return c.Since.Sub(noon.Add(begins)).Abs() <= time.Minute })]
				t.Log(first.Text(time.UTC))
				require.Equal(t, MeasureAnswerBytes, first.Measure)
				require.Equal(t, tt.lasts, first.Lasts)
				if !tt.lasts {
					require.LessOrEqual(t, first.Until.Sub(noon.Add(begins+5*time.Minute)).Abs(), time.Minute)
				}
			}
		})
	}
}

// A day of ordinary traffic has no change, whenever the page is opened. Without -traffic it is a quarter of one.
func TestOrdinaryDayIsQuiet(t *testing.T) {
	needs.Long(t, "internal/changes")
	tr := newTraffic(1000)
	length, step := 6*time.Hour, 3*time.Hour
	if *trafficFlag > 1 {
		length, step = 24*time.Hour, 5*time.Hour/time.Duration(*trafficFlag)
	}
	for at := time.Duration(0); at < length; at += step {
		tr.run(at, at+step)
		found := tr.find(at + step)
		for i := range found {
			t.Errorf("at %v: %.1f %s", at, found[i].Score, found[i].Text(time.UTC))
		}
	}
}

// Ordinary traffic has no change in an hour.
func TestOrdinaryTrafficIsQuiet(t *testing.T) {
	for seed := range 5 * *trafficFlag {
		tr := newTraffic(uint64(seed))
		tr.run(0, time.Hour)
		found := tr.find(time.Hour)
		for i := range found {
			t.Errorf("seed %d: %.1f %s", seed, found[i].Score, found[i].Text(time.UTC))
		}
	}
}
