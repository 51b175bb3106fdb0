package telemetry

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A ringRig is a ring with records of its own making.
type ringRig struct {
	*ring
	series map[string]*Series
	seq    uint64
}

func newRingRig(size int) *ringRig {
	return &ringRig{newRing(size, newInstruments(false).counter(MetricTracesEvicted, classCancelled)), map[string]*Series{}, 0}
}

// record makes a record of a cancelled call.
func (r *ringRig) record(client, tool string, cause mcp.Cause) *record {
	if r.series[tool] == nil {
		r.series[tool] = &Series{key: seriesKey{target: tool}}
	}
	r.seq++
	return &record{seq: r.seq, class: classCancelled, series: r.series[tool], client: client, cause: cause}
}

// TestRing checks that the oldest trace of a line is evicted first, and that a ring takes at most its
// size in one second.
func TestRing(t *testing.T) {
	r := newRingRig(3)
	var displaced []uint64
	for range 8 {
		if old := r.put(r.record("desk", "echo", mcp.CauseDeadline)); old != nil {
			displaced = append(displaced, old.seq)
		}
	}
	require.Equal(t, []uint64{1, 2, 3, 4, 5}, displaced)
	require.Len(t, r.appendTo(nil), 3)
	for _, c := range []struct {
		second int64
		want   bool
	}{{7, true}, {7, true}, {7, true}, {7, false}, {7, false}, {8, true}} {
		require.Equal(t, c.want, r.admit(c.second))
	}
	var m dto.Metric
	require.NoError(t, r.evicted.Write(&m))
	require.EqualValues(t, 5, m.GetCounter().GetValue())
}

// Each displacement takes the oldest record of the largest line of the largest end, as a plain count
// over all records says.
func TestRingDisplacesTheLargestShare(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	r := newRingRig(16)
	var held []*record
	causes := []mcp.Cause{mcp.CauseDeadline, mcp.CauseClientCancel, mcp.CauseClientDisconnect}
	for range 5000 {
		k := r.record(fmt.Sprint("client ", random.IntN(1+random.IntN(6))), fmt.Sprint("tool ", random.IntN(2)), causes[random.IntN(1+random.IntN(3))])
		held = append(held, k)
		displaced := r.put(k)
		if len(held) <= 16 {
			require.Nil(t, displaced)
			continue
		}
		ends, lines := map[string]int{}, map[ringKey]int{}
		for _, h := range held {
			ends[h.ringKey().end]++
			lines[h.ringKey()]++
		}
		at := -1
		for i, h := range held { // the oldest first
			key := h.ringKey()
			if at < 0 {
				at = i
				continue
			}
			best := held[at].ringKey()
			if ends[key.end] > ends[best.end] || key.end == best.end && lines[key] > lines[best] {
				at = i
			}
		}
		best := held[at].ringKey()
		require.Equal(t, ends[best.end], ends[displaced.ringKey().end])
		require.Equal(t, ends[best.end], maxOf(ends))
		if displaced.ringKey().end == best.end {
			require.Equal(t, held[at], displaced)
		}
		for i, h := range held {
			if h == displaced {
				held = append(held[:i], held[i+1:]...)
				break
			}
		}
		require.Len(t, held, 16)
		require.ElementsMatch(t, held, r.appendTo(nil))
	}
	require.LessOrEqual(t, len(r.entries), 17)
}

func maxOf(counts map[string]int) (most int) {
	for _, n := range counts {
		most = max(most, n)
	}
	return most
}

// A storm of one client and tool leaves the records of others, also those of the same second.
func TestStormDoesNotDisplaceOtherClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigConfig{telemetry: []Option{WithRecent(Recent{Traces: 8})}})
		r.tools["fail"] = func(context.Context, *session.Request) (mcp.Result, error) { return nil, errPrivate }
		r.tools["other"] = r.tools["fail"]
		r.post(callOf("fail", "quiet", "1", "ann"), &sink{})
		for range 5 {
			for range 40 {
				r.post(callOf("fail", "storm", "1", "bob"), &sink{})
			}
			r.post(callOf("fail", "late", "1", "cid"), &sink{})
			r.post(callOf("other", "storm", "1", "bob"), &sink{})
			time.Sleep(time.Second)
		}
		count := map[string]int{}
		for _, row := range r.kept("error") {
			count[row.Client+" "+row.Tool]++
		}
		require.Equal(t, 1, count["quiet fail"])
		require.GreaterOrEqual(t, count["late fail"], 2)
		require.GreaterOrEqual(t, count["storm other"], 2)
		require.GreaterOrEqual(t, count["storm fail"], 2)
		require.Equal(t, 8, count["quiet fail"]+count["late fail"]+count["storm other"]+count["storm fail"])
	})
}

// One record of a cause stays, however many clients are cancelled for another.
func TestOneCauseDoesNotDisplaceAnother(t *testing.T) {
	r := newRingRig(16)
	r.put(r.record("client 7", "echo", mcp.CauseDeadline))
	for i := range 1000 {
		r.put(r.record(fmt.Sprint("client ", i%40), "echo", mcp.CauseClientDisconnect))
	}
	require.EqualValues(t, 1, r.ends[string(mcp.CauseDeadline)].n)
	require.Equal(t, 16, len(r.appendTo(nil)))
}

// A flood of new names gets no more in a second than the ring has room for.
func TestFloodOfNamesIsBounded(t *testing.T) {
	for name, record := range map[string]func(r *ringRig, i int) *record{
		"clients": func(r *ringRig, i int) *record { return r.record(fmt.Sprint("client ", i), "echo", mcp.CauseDeadline) },
		"ends":    func(r *ringRig, i int) *record { return r.record("desk", "echo", mcp.Cause(fmt.Sprint(i))) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRingRig(16)
			took := 0
			for i := range 1000 {
				k := record(r, i)
				if r.admit(7) || r.favours(k.ringKey()) {
					r.put(k)
					took++
				}
			}
			require.Equal(t, 16, took)
			require.Len(t, r.appendTo(nil), 16)
		})
	}
}
