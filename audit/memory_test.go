package audit

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
)

// Full queues take no more than MaxBytes says, whichever text that callers choose is long.
func TestFullQueuesFitIntoTheirBytes(t *testing.T) {
	long := func(i int) string { return fmt.Sprint(strings.Repeat("x", 2000), i) }
	for name, record := range map[string]func(i int) Record{
		"small records":   func(i int) Record { return called(fmt.Sprint(i)) },
		"long targets":    func(i int) Record { return called(long(i)) },
		"long operations": func(i int) Record { r := called("x"); r.Operation = long(i); return r },
		"long ids":        func(i int) Record { r := called("x"); r.RequestID = long(i); return r },
		"long clients":    func(i int) Record { r := called("x"); r.ClientName, r.ClientVersion = long(i), long(-i); return r },
		"long reasons":    func(i int) Record { r := called("x"); r.Reason, r.Rule = long(i), long(-i); return r },
		"long principals": func(i int) Record {
			r := called("x")
			r.Principal = &auth.Principal{Issuer: long(i), Subject: long(i), Tenant: long(i), Client: long(i)}
			for range 2 * maxActors {
				r.Principal.Actors = append(r.Principal.Actors, long(i))
			}
			return r
		},
	} {
		t.Run(name, func(t *testing.T) {
			gate := make(chan struct{})
			sink := &memory{}
			sink.instead = func(_ context.Context, entries []Entry) (int, error) {
				<-gate
				return len(entries), nil
			}
			refused := slices.Repeat([]Record{called("x")}, 8<<10)
			before := heap()
			l := newLog(t, Config{Sinks: []Sink{sink}})
			t.Cleanup(func() {
				close(gate)
				require.NoError(t, l.Close(context.WithoutCancel(t.Context())))
			})
			for i := 0; l.Stats()[0].Lost[LostFull] == 0; i++ {
				l.Add(record(i))
			}
			l.queues[0].addRefusals(refused)
			took := heap() - before
			t.Logf("%d records take %.1f MiB of %.1f", l.Stats()[0].Waiting, float64(took)/(1<<20), float64(l.MaxBytes())/(1<<20))
			require.LessOrEqual(t, took, l.MaxBytes())
			require.Greater(t, took, l.MaxBytes()/3)
			runtime.KeepAlive(refused)
		})
	}
}

// A queue gives back the memory of records as they are written: one that was full, and whose sink hangs again near the
// end, takes no more than a full one, and an empty one takes next to nothing.
func TestWrittenRecordsGiveMemoryBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate, again := make(chan struct{}), make(chan struct{})
		written := 0
		sink := &memory{}
		sink.instead = func(_ context.Context, entries []Entry) (int, error) {
			<-gate
			if written += len(entries); written > 30<<10 {
				<-again
			}
			return len(entries), nil
		}
		before := heap()
		l := newLog(t, Config{Sinks: []Sink{sink}})
		fill := func() {
			lost := l.Stats()[0].Lost[LostFull]
			for i := 0; l.Stats()[0].Lost[LostFull] == lost; i++ {
				l.Add(called(fmt.Sprint(strings.Repeat("x", maxTarget/2), i)))
			}
		}
		fill()
		close(gate)
		time.Sleep(time.Second)
		require.Less(t, l.Stats()[0].Waiting, 4<<10)
		fill()
		took := heap() - before
		t.Logf("%d records take %.1f MiB of %.1f", l.Stats()[0].Waiting, float64(took)/(1<<20), float64(l.MaxBytes())/(1<<20))
		close(again)
		require.LessOrEqual(t, took, l.MaxBytes())
		time.Sleep(time.Second)
		require.Zero(t, l.Stats()[0].Waiting)
		require.Less(t, heap()-before, 2<<20, "an empty queue")
		require.NoError(t, l.Close(t.Context()))
	})
}

// A record that waits keeps what is written of its principal, and not the claims of a token.
func TestWaitingRecordsKeepNoClaims(t *testing.T) {
	gate := make(chan struct{})
	var got Record
	sink := &memory{}
	sink.instead = func(_ context.Context, entries []Entry) (int, error) {
		<-gate
		if got.Principal == nil {
			got = *entries[0].Record
		}
		return len(entries), nil
	}
	before := heap()
	l := newLog(t, Config{Sinks: []Sink{sink}, MaxBytes: 2 << 20, MaxRefusals: 1})
	for i := 0; l.Stats()[0].Lost[LostFull] == 0; i++ {
		r := called("x")
		r.Principal = &auth.Principal{
			Issuer: "https://login.example.com", Subject: fmt.Sprint(i), Tenant: "acme", Client: "cli", Actors: []string{"proxy"},
			Scopes: []string{strings.Repeat("s", 1<<10)}, Claims: map[string]any{"groups": strings.Repeat("g", 64<<10)},
		}
		l.Add(r)
	}
	took := heap() - before
	t.Logf("%d records take %.1f MiB of %.1f", l.Stats()[0].Waiting, float64(took)/(1<<20), float64(l.MaxBytes())/(1<<20))
	require.LessOrEqual(t, took, l.MaxBytes())
	waiting := l.Stats()[0].Bytes
	close(gate)
	require.NoError(t, l.Close(t.Context()))
	require.Greater(t, waiting, 1<<20)
	require.Zero(t, l.Stats()[0].Bytes, "what is written is taken off as it was counted")
	require.Equal(t, "0", got.Principal.Subject, "a sink sees who called, and may copy the record")
	require.Equal(t, []string{"proxy"}, got.Principal.Actors)
	require.Empty(t, got.Principal.Claims)
	require.Empty(t, got.Principal.Scopes)
}

// Refusals with long reasons, which an authenticator may make up, fit into the memory of the queue of refusals.
func TestWaitingRefusalsHaveShortReasons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &memory{instead: hang}
		before := heap()
		l := newLog(t, Config{Sinks: []Sink{sink}, MaxBytes: 1 << 20})
		for i := 0; l.Stats()[0].Lost[LostRefusals] == 0; i++ {
			reason := fmt.Sprint(i, strings.Repeat("x", 4000))
			l.AddRefusal(Record{Time: time.Now().Add(time.Duration(i/maxRefusalKeys) * time.Minute), Stage: StageToken, Reason: reason})
		}
		took := heap() - before
		t.Logf("%d refusals take %.1f MiB of %.1f", l.Stats()[0].Waiting, float64(took)/(1<<20), float64(l.MaxBytes())/(1<<20))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.Error(t, l.Close(ctx), "the sink hangs")
		require.LessOrEqual(t, took, l.MaxBytes())
	})
}

func heap() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// Records with long texts, and with long arguments that the program keeps, are written in small parts, and no part of
// them stays in memory: what a writer needs is counted in MaxBytes.
func TestLinesOfLongRecordsTakeLittleMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const kept = 64 << 10
		gate, most, written := make(chan struct{}), 0, 0
		sink := &memory{}
		sink.instead = func(_ context.Context, entries []Entry) (int, error) {
			<-gate
			bytes := 0
			for _, e := range entries {
				bytes += len(e.Line)
			}
			most, written = max(most, bytes), written+len(entries)
			return len(entries), nil
		}
		before := heap()
		l := newLog(t, Config{Sinks: []Sink{sink}, MaxArgumentBytes: kept, Redact: func(_ *Record, arguments []byte) []byte {
			return slices.Clone(arguments)
		}})
		const records = 300
		for range records {
			r := called(strings.Repeat(`"`, maxTarget))
			r.Arguments = []byte(`"` + strings.Repeat("x", kept-2) + `"`)
			l.Add(r)
		}
		close(gate)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, records, written)
		require.Less(t, most, maxLines+maxLineBytes+kept)
		require.Greater(t, most, kept)
		require.Less(t, heap()-before, l.MaxBytes()-l.config.MaxBytes, "nothing waits")
		require.NoError(t, l.Close(t.Context()))
	})
}
