package audit

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func refusal(stage Stage, reason, address string) Record {
	return Record{Time: time.Now(), Stage: stage, Reason: reason, Address: address, Decision: DecisionRefused, ErrorCode: 401}
}

// Refusals of unknown callers are counted by stage, reason, network and minute.
func TestRefusalsAreCountedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &memory{}
		l := newLog(t, Config{Sinks: []Sink{sink}})
		for i := range 300 {
			l.AddRefusal(refusal(StageToken, "token_expired", fmt.Sprintf("203.0.113.%d:4711", i%250)))
			time.Sleep(10 * time.Millisecond)
		}
		l.AddRefusal(refusal(StageHost, "host", "2001:db8:1:2::3"))
		l.AddRefusal(refusal(StageHost, "host", "[2001:db8:1:9::3]:80"))
		l.AddRefusal(refusal(StageHost, "host", "::ffff:203.0.113.9"))
		l.AddRefusal(refusal(StageHost, "host", "nonsense"))
		require.Empty(t, sink.all(), "before the minute is over")
		time.Sleep(2 * time.Minute)
		lines := strings.Join(sink.all(), "\n")
		require.Len(t, sink.all(), 4, lines)
		require.Regexp(t, `"address":"203.0.113.0/24","operation":"audit/refused","decision":"refused","reason":"token_expired","stage":"token","outcome":"refused","error_code":401,"duration_ms":2990.000,"count":300}`, lines)
		require.Regexp(t, `"address":"2001:db8:1::/48".*"count":2}`, lines)
		require.Regexp(t, `"address":"203.0.113.0/24".*"stage":"host".*"count":1}`, lines)
		l.AddRefusal(refusal(StageHost, "host", "192.0.2.1"))
		require.NoError(t, l.Close(t.Context()))
		require.Len(t, sink.all(), 5, "Close ends the minute")
		l.AddRefusal(refusal(StageHost, "host", "192.0.2.1"))
		time.Sleep(2 * time.Minute)
		require.Empty(t, l.refusals.timer)
	})
}

// However many refusals an attacker invents, a minute has a bounded number of records, and those of
// known callers keep their places.
func TestRefusalsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &memory{}
		gate := make(chan struct{})
		sink.instead = func(_ context.Context, entries []Entry) (int, error) {
			<-gate
			sink.keep(entries)
			return len(entries), nil
		}
		l := newLog(t, Config{Sinks: []Sink{sink}, MaxRecords: 10})
		const each, minutes = 5000, 5
		for minute := range minutes {
			for i := range each {
				l.AddRefusal(refusal(StageToken, fmt.Sprint("reason", i), fmt.Sprintf("10.%d.%d.1", minute, i%256)))
			}
			time.Sleep(time.Minute)
		}
		time.Sleep(time.Minute)
		state := l.Stats()[0]
		require.LessOrEqual(t, state.Waiting, 4096)
		require.Equal(t, map[string]uint64{LostRefusals: state.Lost[LostRefusals]}, state.Lost)
		require.NotZero(t, state.Lost[LostRefusals])
		for range 10 {
			l.Add(called("echo"))
		}
		require.Zero(t, l.Stats()[0].Lost[LostFull])
		close(gate)
		require.NoError(t, l.Close(t.Context()))
		var told, calls uint64
		for _, line := range sink.all() {
			var n uint64
			if _, count, ok := strings.Cut(line, `"count":`); ok {
				_, err := fmt.Sscanf(count, "%d", &n)
				require.NoError(t, err)
				told += n
			} else {
				calls++
			}
		}
		require.Equal(t, uint64(each*minutes), told, "with the record of what was lost")
		require.Equal(t, uint64(10), calls)
	})
}
