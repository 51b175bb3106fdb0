package telemetry

import (
	"context"
	"fmt"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// Metrics and pages say what a full class has, who waits for it and for how long, and what the queue
// refused for its sake.
func TestFullClassIsVisible(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigConfig{limits: limits.Limits{MaxQueue: 1}})
		held := make(chan struct{})
		r.classes["slow"] = session.NewClass("backend", 1)
		r.core.UseClass(r.classes["slow"])
		r.tools["slow"] = func(context.Context, *session.Request) (mcp.Result, error) {
			<-held
			return &mcp.CallToolResult{}, nil
		}
		s := r.core.Connect(pipeConn, &sink{})
		for i := range 3 {
			in := call("slow")
			in.ID, in.Conn = mcp.IntID(int64(i)), pipeConn
			s.Receive(in)
			synctest.Wait()
		}
		families := gather(t, r.tel.Registry())
		for metric, want := range map[string]int{MetricClassLimit: 1, MetricClassInUse: 1, MetricClassQueued: 1, MetricClassRefused: 1} {
			require.EqualValues(t, want, value(families, metric, "class", "backend"), metric)
		}
		require.EqualValues(t, 1, value(families, MetricLimitReached, "limit", limits.NameQueue))
		rec := httptest.NewRecorder()
		r.tel.RequestsHandler().ServeHTTP(rec, httptest.NewRequest("GET", "/debug/requests?format=text", nil))
		require.Regexp(t, `(?m)^CONCURRENCY CLASS +IN USE +OF +QUEUED\nbackend +1 +1 +1$`, rec.Body.String())
		require.Regexp(t, `(?m)^0s +queued +tools/call +slow +1 +backend +tester 1\.2 `, rec.Body.String())

		time.Sleep(time.Second / 2)
		close(held)
		synctest.Wait()
		families = gather(t, r.tel.Registry())
		waits := find(families, MetricQueueWait, map[string]string{"class": "backend"}).GetHistogram()
		require.EqualValues(t, 2, waits.GetSampleCount())
		require.InDelta(t, 0.5, waits.GetSampleSum(), 0.01)
		require.Zero(t, find(families, MetricQueueWait, map[string]string{"class": ""}).GetHistogram().GetSampleCount())
		s.Finish(mcp.CauseTransportClose)
	})
}

// The wait of a request that is cancelled in the queue counts for its class, too.
func TestWaitThatEndsInTheQueueHasItsClass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigConfig{})
		r.classes["slow"] = session.NewClass("backend", 1)
		r.core.UseClass(r.classes["slow"])
		r.tools["slow"] = func(ctx context.Context, _ *session.Request) (mcp.Result, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		s := r.core.Connect(pipeConn, &sink{})
		defer s.Finish(mcp.CauseTransportClose)
		const running, waiting = 1, 2
		for id := range int64(2) {
			in := call("slow")
			in.ID, in.Conn = mcp.IntID(running+id), pipeConn
			s.Receive(in)
			synctest.Wait()
		}
		time.Sleep(200 * time.Millisecond)
		s.Receive(cancelOf(waiting, ""))
		synctest.Wait()
		families := gather(t, r.tel.Registry())
		waits := find(families, MetricQueueWait, map[string]string{"class": "backend"}).GetHistogram()
		require.EqualValues(t, 2, waits.GetSampleCount())
		require.InDelta(t, 0.2, waits.GetSampleSum(), 0.001)
		require.Zero(t, find(families, MetricQueueWait, map[string]string{"class": ""}).GetHistogram().GetSampleCount())
	})
}

// A server that is no source names the class when an operation begins.
func TestWaitOfAnotherServerHasItsClass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel, err := New()
		require.NoError(t, err)
		begin := func() *Operation {
			_, op := tel.Begin(t.Context(), Info{Method: mcp.MethodToolsCall, Target: "slow", Class: "backend", Queued: true})
			time.Sleep(200 * time.Millisecond)
			return op
		}
		started := begin()
		started.Started(0)
		started.End(Outcome{})
		begin().End(Outcome{Cancelled: &mcp.CancelError{Cause: mcp.CauseClientCancel}})
		families := gather(t, tel.Registry())
		waits := find(families, MetricQueueWait, map[string]string{"class": "backend"}).GetHistogram()
		require.EqualValues(t, 2, waits.GetSampleCount())
		require.InDelta(t, 0.4, waits.GetSampleSum(), 0.001)
	})
}

// Classes with ever new names must not make ever new series.
func TestClassesOfQueueWaitsAreBounded(t *testing.T) {
	in := newInstruments(false)
	for i := range 3 * maxBoundedNames {
		in.queueWaitsOf(fmt.Sprint("class ", i%(2*maxBoundedNames))).Observe(1)
	}
	require.Len(t, collected(in.histograms[MetricQueueWait]), 1+maxBoundedNames+1, "none, the first ones, and _OTHER")
}

// Operations that are cancelled are counted with the phase, also of servers that are no source.
func TestCancelledOperationsHaveThePhase(t *testing.T) {
	tel, err := New()
	require.NoError(t, err)
	for _, c := range []struct {
		queued, started, acknowledged bool
		phase                         string
	}{{phase: "running"}, {queued: true, phase: "queued"}, {queued: true, started: true, phase: "running"}, {acknowledged: true, phase: "listening"}} {
		_, op := tel.Begin(t.Context(), Info{Method: mcp.MethodToolsCall, Target: c.phase, Queued: c.queued})
		if c.started {
			op.Started(0)
		}
		if c.acknowledged {
			op.Acknowledged()
		}
		op.Cancelled(mcp.CauseClientCancel, "")
		op.Cancelled(mcp.CauseDeadline, "")
		families := gather(t, tel.Registry())
		require.Positive(t, value(families, MetricRequestsCancelled, "tool", c.phase, "cause", "client_cancel", "phase", c.phase), c.phase)
		op.End(Outcome{Fate: FateDropped, Dropped: mcp.DropCancelled})
	}
	families := gather(t, tel.Registry())
	require.EqualValues(t, 4, sum(families, MetricRequestsCancelled))
}
