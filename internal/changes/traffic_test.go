package changes

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// A traffic is the calls of some clients in virtual time: daily-shaped, and in bursts.
type traffic struct {
	random  *rand.Rand
	store   *Store
	history History
	begin   time.Time
	flows   []*flow
	// change is called for each call, after the time of a call is known. It may change the call, or drop it
	// by setting Outcome to "".
	change func(o *Observation, at time.Duration)
	// extra returns how many times as many calls a flow has.
	extra func(f *flow, at time.Duration) float64
	at    time.Duration // of the call
}

// A flow is the calls of one principal with one client.
type flow struct {
	client, version, principal string
	rate                       float64 // calls a second, on average
	burst                      int     // steps of a burst that are left
}

type tool struct {
	name          string
	running       time.Duration
	bytes         float64
	errors, wrong float64
}

var tools = []tool{
	{"search_orders", 40 * time.Millisecond, 4000, 0.002, 0.01},
	{"get_order", 5 * time.Millisecond, 800, 0.001, 0.005},
	{"issue_refund", 120 * time.Millisecond, 300, 0.01, 0.01},
	{"forecast", 900 * time.Millisecond, 2000, 0.005, 0.002},
	{"export", 300 * time.Millisecond, 50_000, 0.003, 0.001},
}

func newTraffic(seed uint64) *traffic {
	tr := &traffic{random: rand.New(rand.NewPCG(seed, 7)), store: New(DefaultBytes), begin: noon}
	for i := range 24 {
		f := &flow{client: "desk-agent", version: "4.2.9", principal: fmt.Sprintf("user-%d", i), rate: 0.2 + tr.random.ExpFloat64()*0.8}
		if i == 3 || i == 5 || i == 8 {
			f.rate = 0.8 // an incident is about these
		}
		switch {
		case i%4 == 1:
			f.client, f.version = "cli", "1.8"
		case i%6 == 2:
			f.client, f.version = "batch", "0.3"
		}
		tr.flows = append(tr.flows, f)
	}
	return tr
}

// run makes the calls from one time to another since the beginning.
func (tr *traffic) run(from, to time.Duration) {
	for at := from; at < to; at += StepSeconds * time.Second {
		daily := 1 + 0.6*math.Sin(2*math.Pi*at.Hours()/24)
		for _, f := range tr.flows {
			tr.step(f, at, daily)
		}
	}
}

// step makes the calls of a flow in one step. Now and then a flow has a burst: for one to six steps it makes
// up to eight times as many calls, a part of them fails together, and they wait for slots.
func (tr *traffic) step(f *flow, at time.Duration, daily float64) {
	rate, failing := f.rate*daily, false
	if f.burst == 0 && tr.random.Float64() < 0.004 {
		f.burst = 1 + tr.random.IntN(6)
	}
	if f.burst > 0 {
		f.burst--
		rate *= 2 + 6*tr.random.Float64()
		failing = tr.random.Float64() < 0.1
	}
	if tr.extra != nil {
		rate *= tr.extra(f, at)
	}
	for range tr.poisson(rate * StepSeconds) {
		tr.call(f, at+time.Duration(tr.random.Int64N(StepSeconds*int64(time.Second))), failing)
	}
}

func (tr *traffic) poisson(mean float64) (n int) {
	for sum := tr.random.ExpFloat64(); sum < mean; sum += tr.random.ExpFloat64() {
		n++
	}
	return n
}

func (tr *traffic) call(f *flow, at time.Duration, failing bool) {
	t := tools[min(int(tr.random.ExpFloat64()*1.6), len(tools)-1)]
	vary := func(spread float64) float64 { return math.Exp(tr.random.NormFloat64() * spread) }
	o := Observation{
		Client: f.client, Version: f.version, Subject: f.principal, Method: "tools/call", Target: t.name,
		Outcome: OutcomeAnswered, RequestBytes: int(300 * vary(0.4)), AnswerBytes: int(t.bytes * vary(0.7)),
		Running: time.Duration(float64(t.running) * vary(0.6)), Queued: time.Duration(float64(50*time.Microsecond) * vary(1)),
		Writing: time.Duration(float64(100*time.Microsecond) * vary(0.8)),
	}
	if f.burst > 0 {
		o.Queued = time.Duration(float64(3*time.Millisecond) * vary(1))
	}
	switch p := tr.random.Float64(); {
	case p < t.errors, failing && p < 0.2:
		o.Outcome, o.Reason = "error", "tool_error"
	case p < t.errors+t.wrong:
		o.Outcome, o.Reason, o.Running = "caller_error", "arguments", 0
	case p < t.errors+t.wrong+0.004:
		o.Outcome, o.Reason, o.Phase = "cancelled", "client_disconnect", "running"
	}
	tr.at = at
	if tr.change != nil {
		tr.change(&o, at)
	}
	if o.Outcome == "" {
		return
	}
	o.Took = o.Queued + o.Running + o.Blocked
	o.At = tr.begin.Add(at).UnixNano()
	tr.store.Add(&o)
}

// lose loses a stored answer of the caller of a call.
func (tr *traffic) lose(o *Observation, reason string) {
	tr.store.Add(&Observation{
		Client: o.Client, Version: o.Version, Subject: o.Subject, Method: o.Method, Target: o.Target,
		Outcome: OutcomeExpired, Reason: reason, At: tr.begin.Add(tr.at).UnixNano(),
	})
}

// find returns the changes in what was before a time since the beginning.
func (tr *traffic) find(at time.Duration) []Change {
	tr.store.Fill(&tr.history, Step(tr.begin.Add(at)), 720)
	return Find(&tr.history)
}
