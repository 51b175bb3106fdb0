package telemetry

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// countedCalls are finished calls of different callers: the history of changes counts them.
func countedCalls(tb testing.TB) map[string]*session.Request {
	known := *httpConn
	known.Principal = &auth.Principal{Issuer: "https://login.example.com", Subject: "ada", Tenant: "acme"}
	withPrincipal := call("echo")
	withPrincipal.Conn = &known
	return map[string]*session.Request{
		"modern":                  finished(tb, call("echo")),
		"modern with a principal": finished(tb, withPrincipal),
		"legacy":                  finishedInSession(tb),
	}
}

// finishedInSession is a finished call of a legacy client.
func finishedInSession(tb testing.TB) *session.Request {
	c, d := &capture{}, &benchDispatcher{}
	core := session.New(session.Config{Dispatcher: d, Observer: c})
	d.route = plainRoute(core, "echo")
	s := core.Connect(pipeConn, &sink{})
	s.Initialize(&session.Peer{Version: mcp.Version20251125, Client: mcp.Implementation{Name: "tester", Version: "1.2"}})
	in := call("echo")
	in.Era, in.Conn, in.Meta.ClientInfo = mcp.Legacy, pipeConn, nil
	s.Receive(in)
	s.EOF()
	<-s.Done()
	return c.r
}

// countOf returns a function that counts a call as answered.
func countOf(tb testing.TB, r *session.Request) func() {
	o := unexportedObserver(tb)
	replay(o, tb.Context(), r)
	op, out := operationOf(r), Outcome{Fate: FateSent, Settled: r.Latency(), Started: time.Microsecond, RequestBytes: 100, AnswerBytes: 200}
	out.Returned = out.Settled
	return func() { op.count(&out, "") }
}

// countOfSlow returns a function that counts a call that ran for a second, behind eight middlewares.
func countOfSlow(tb testing.TB) func() {
	o, r := unexportedObserver(tb), finished(tb, call("echo"))
	names, stages := []string{}, &session.Stages{}
	for i := range session.MaxTimedMiddlewares {
		names = append(names, session.StageMiddleware+strconv.Itoa(i))
	}
	stages.Begin(r, append(names, session.StageHandler))
	for i := range session.MaxTimedMiddlewares + 1 {
		stages.Enter(i)
	}
	for i := range session.MaxTimedMiddlewares + 1 {
		stages.Leave(session.MaxTimedMiddlewares - i)
	}
	replay(o, tb.Context(), r)
	op, out := operationOf(r), Outcome{Fate: FateSent, Started: time.Microsecond, Returned: time.Second, Settled: time.Second}
	return func() { op.count(&out, "") }
}

// BenchmarkCount measures what the history of changes costs a call: to name its caller, to read the clock, and to
// add it to the sums.
func BenchmarkCount(b *testing.B) {
	for name, r := range countedCalls(b) {
		b.Run(name, func(b *testing.B) {
			count := countOf(b, r)
			b.ReportAllocs()
			for b.Loop() {
				count()
			}
		})
	}
	b.Run("slow", func(b *testing.B) {
		count := countOfSlow(b)
		b.ReportAllocs()
		for b.Loop() {
			count()
		}
	})
	b.Run("clock", func(b *testing.B) {
		begin := time.Now()
		for b.Loop() {
			_ = time.Since(begin)
		}
	})
}

// To count a call makes nothing on the heap for any kind of caller.
func TestCountAllocatesNothing(t *testing.T) {
	for name, r := range countedCalls(t) {
		count := countOf(t, r)
		count()
		require.Zero(t, testing.AllocsPerRun(1000, count), name)
	}
	slow := countOfSlow(t)
	slow()
	require.Zero(t, testing.AllocsPerRun(1000, slow), "slow")
}
