package telemetry

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/changes"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// kept returns what the history has, by key.
func kept(t *Telemetry) map[changes.Key]changes.Cell {
	all := map[changes.Key]changes.Cell{}
	t.changes.Read(0, changes.Step(time.Now())+1, func(_ int64, info *changes.Info, cell *changes.Cell) {
		sum := all[info.Key]
		sum.Add(cell)
		all[info.Key] = sum
	})
	return all
}

// Each end of a request has a key of its own.
func TestHistoryHasEachEndOfARequest(t *testing.T) {
	tel, err := New()
	require.NoError(t, err)
	end := func(o Outcome, callers bool) {
		_, op := tel.Begin(t.Context(), Info{
			Method: mcp.MethodToolsCall, Target: "refund", Client: &mcp.Implementation{Name: "desk", Version: "4.3.0"}, Bytes: 100,
		})
		if callers {
			op.Error(mcp.CallerFault(errors.New("no such order")))
		}
		op.End(o)
	}
	ends := map[changes.Key]Outcome{
		{Outcome: changes.OutcomeAnswered}:                                  {AnswerBytes: 200},
		{Outcome: classCancelled, Reason: "deadline", Phase: phaseRunning}:  {Cancelled: &mcp.CancelError{Cause: mcp.CauseDeadline}},
		{Outcome: classRejected, Reason: "overload"}:                        {Rejected: mcp.RejectOverload},
		{Outcome: classDropped, Reason: "broken_peer", Phase: phaseWriting}: {Fate: FateDropped, Dropped: mcp.DropBrokenPeer},
		{Outcome: classError, Reason: "tool_error"}:                         {ToolError: true},
		{Outcome: classError, Reason: "-32603"}:                             {Err: mcp.NewError(mcp.CodeInternalError, "x")},
		{Outcome: classCaller, Reason: "tool_error"}:                        {ToolError: true},
		{Outcome: classCaller, Reason: "-32602"}:                            {Err: mcp.NewError(mcp.CodeInvalidParams, "x")},
	}
	for key, out := range ends {
		end(out, key.Outcome == classCaller && out.ToolError)
	}
	all := kept(tel)
	require.Len(t, all, len(ends))
	for want := range ends {
		want.Client, want.Version, want.Method, want.Target = "desk", "4.3.0", mcp.MethodToolsCall, "refund"
		cell := all[want]
		require.EqualValues(t, 1, cell.Calls, "%+v", want)
		require.EqualValues(t, 100, cell.RequestBytes, "%+v", want)
	}
}

// How long a call that streams lasts is no change: the history has its wait in the queue and not its running time.
func TestHistoryLeavesOutHowLongCallsStream(t *testing.T) {
	for _, streams := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			tel, err := New()
			require.NoError(t, err)
			_, op := tel.Begin(t.Context(), Info{Method: mcp.MethodToolsCall, Target: "follow", Queued: true})
			time.Sleep(time.Second)
			op.Started(0)
			time.Sleep(time.Minute)
			op.End(Outcome{Streams: streams})
			cell := kept(tel)[changes.Key{Method: mcp.MethodToolsCall, Target: "follow", Outcome: changes.OutcomeAnswered}]
			require.EqualValues(t, 1, cell.Calls)
			require.EqualValues(t, time.Second.Microseconds(), cell.Queued)
			if streams {
				require.EqualValues(t, time.Second.Microseconds(), cell.Took)
				require.Zero(t, cell.Running)
				require.Zero(t, cell.LogRunning)
			} else {
				require.EqualValues(t, time.Minute.Microseconds(), cell.Running)
			}
		})
	}
}

// A stored answer that was lost has a key with what its request has. Lost answers of a disabled telemetry are
// ignored.
func TestHistoryHasLostAnswers(t *testing.T) {
	tel, err := New()
	require.NoError(t, err)
	lost := &session.ExpiredAnswer{
		Method: mcp.MethodToolsCall, Target: "refund", Client: "desk", ClientVersion: "4.3.0", Reason: mcp.ExpireMaxEventBytesTotal,
	}
	TestBridge.Observer(tel).AnswerExpired(lost, &auth.Principal{Subject: "ada", Tenant: "acme"})
	require.Equal(t, map[changes.Key]changes.Cell{{
		Client: "desk", Version: "4.3.0", Principal: "ada of acme", Method: mcp.MethodToolsCall, Target: "refund",
		Outcome: changes.OutcomeExpired, Reason: "max_event_bytes_total",
	}: {Calls: 1}}, kept(tel))
	TestBridge.Observer(Disabled()).AnswerExpired(lost, nil)
}
