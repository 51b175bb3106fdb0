package task

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/share"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/store"
)

// check compares all that the store keeps about its tasks with the tasks.
func (m *memory) check(t *testing.T, l limits.Limits) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	bytes, counts, shares, sizes := 0, map[mcp.TaskStatus]int{}, map[share.Key]int{}, map[share.Key]int{}
	ended := 0
	for id, k := range m.byID {
		require.Equal(t, id, k.rec.TaskID)
		require.Equal(t, k.sizeAs(k.rec), k.size)
		require.Same(t, k, m.expiring[k.heap])
		require.Equal(t, k.rec.Status.Terminal(), k.ended != nil, "only what has ended may be forgotten early")
		bytes += k.size
		counts[k.rec.Status]++
		caller := originOf(k.rec).caller
		shares[caller]++
		sizes[caller] += k.size
		if k.ended != nil {
			ended++
		}
	}
	require.Len(t, m.expiring, len(m.byID))
	for i, k := range m.expiring {
		require.False(t, k.rec.Expires.Before(m.expiring[(i-1)/2].rec.Expires), "the heap")
	}
	require.Equal(t, bytes, m.bytes)
	for status, n := range m.counts {
		require.Equal(t, counts[status], n, status)
	}
	require.Len(t, m.callers, len(shares), "nothing is kept of who has nothing")
	for caller, share := range m.callers {
		require.Equal(t, shares[caller], share.tasks)
		require.Equal(t, sizes[caller], share.bytes)
		ended -= share.ended.Len()
		require.LessOrEqual(t, share.tasks, l.MaxTasksPerPrincipal)
	}
	require.Zero(t, ended)
	require.LessOrEqual(t, len(m.byID), l.MaxTasks)
	require.LessOrEqual(t, m.bytes, l.MaxTaskBytes)
}

// originOf is the origin of every task: each principal is a caller, and a request has 100 bytes.
func originOf(rec *store.TaskRecord) origin {
	return origin{share.KeyOf(&auth.Principal{Subject: rec.Principal}, netip.Addr{}), 100}
}

// The size of a task includes its request while its handler runs.
func TestMemoryTasksCountTheRequestWhileItRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limits.Limits{MaxTasks: 1, MaxTasksPerPrincipal: 1, MaxTaskBytes: 10_000}
		m := newMemory(func() limits.Limits { return l }, originOf, func(string) {})
		rec := &store.TaskRecord{Task: mcp.Task{TaskID: "a", Status: mcp.TaskWorking}, Expires: time.Now().Add(time.Minute)}
		require.NoError(t, m.Create(t.Context(), rec))
		require.Equal(t, session.ShareInfo{
			Limit: limits.NameTaskBytes, Usage: share.Usage{Size: 10_000, Used: recordSize(rec) + 100, Holders: 1},
			Largest: recordSize(rec) + 100, Caller: originOf(rec).caller,
		}, m.share())
		rec, err := m.Update(t.Context(), "a", func(rec *store.TaskRecord) error { rec.Status = mcp.TaskCompleted; return nil })
		require.NoError(t, err)
		require.Equal(t, recordSize(rec), m.share().Used)
		time.Sleep(time.Hour)
	})
}

// After any sequence of operations the counters match the tasks, and the limits hold.
func TestMemoryTasksCountersMatchTheTasks(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 0))
			l := limits.Limits{MaxTasks: 12, MaxTasksPerPrincipal: 5, MaxTaskBytes: 9000}
			m := newMemory(func() limits.Limits { return l }, originOf, func(string) {})
			var ids []string
			for n := range 400 {
				switch r.IntN(4) {
				case 0:
					id := fmt.Sprint(n)
					now := taskTime()
					err := m.Create(t.Context(), &store.TaskRecord{
						Task:      mcp.Task{TaskID: id, Status: mcp.TaskWorking, CreatedAt: now},
						Principal: fmt.Sprint(r.IntN(4)), Expires: now.Add(time.Duration(1+r.IntN(60)) * time.Second),
					})
					if err == nil {
						ids = append(ids, id)
					}
				case 1, 2:
					if len(ids) == 0 {
						continue
					}
					_, _ = m.Update(t.Context(), ids[r.IntN(len(ids))], func(rec *store.TaskRecord) error {
						switch {
						case rec.Status.Terminal(), r.IntN(10) == 0:
							return errTaskOver
						case r.IntN(2) == 0:
							rec.Status, rec.Result = mcp.TaskCompleted, make(jsontext.Value, r.IntN(3000))
							rec.Expires = time.Now().Add(time.Duration(1+r.IntN(60)) * time.Second)
						default:
							askClient(rec, fmt.Sprint(r.IntN(3)), mcp.InputRequest{Method: "x", Params: make(jsontext.Value, r.IntN(500))})
						}
						return nil
					})
				case 3:
					time.Sleep(time.Duration(r.IntN(5000)) * time.Millisecond)
					synctest.Wait()
				}
				m.check(t, l)
			}
			time.Sleep(time.Hour)
			synctest.Wait()
			m.check(t, l)
			require.Empty(t, m.tally()[mcp.TaskCompleted]+m.tally()[mcp.TaskWorking]+m.tally()[mcp.TaskInputRequired], "everything expires, without anybody asking")
		})
	}
}

// The oldest end is removed first, and one of the same principal before others.
func TestMemoryTasksRemoveTheOldestEnd(t *testing.T) {
	l := limits.Limits{MaxTasks: 4, MaxTasksPerPrincipal: 2, MaxTaskBytes: 1 << 20}
	reached := map[string]int{}
	m := newMemory(func() limits.Limits { return l }, originOf, func(limit string) { reached[limit]++ })
	create := func(principal, id string) error {
		return m.Create(context.Background(), &store.TaskRecord{
			Task: mcp.Task{TaskID: id, Status: mcp.TaskWorking}, Principal: principal, Expires: time.Now().Add(time.Hour),
		})
	}
	end := func(id string) {
		_, err := m.Update(context.Background(), id, func(rec *store.TaskRecord) error { rec.Status = mcp.TaskCompleted; return nil })
		require.NoError(t, err)
	}
	alive := func(want ...string) {
		t.Helper()
		var got []string
		for id := range m.byID {
			got = append(got, id)
		}
		require.ElementsMatch(t, want, got)
		m.check(t, l)
	}
	for _, id := range []string{"a1", "a2", "b1", "b2"} {
		require.NoError(t, create(id[:1], id))
	}
	require.Error(t, create("a", "a3"), "what runs stays")
	require.Error(t, create("c", "c1"))
	end("b1")
	end("a2")
	end("a1")
	require.NoError(t, create("a", "a3"))
	alive("a1", "a3", "b1", "b2")
	require.NoError(t, create("c", "c1"))
	alive("a1", "a3", "b2", "c1")
	require.Equal(t, map[string]int{"max_tasks_per_principal": 2, "max_tasks": 2}, reached)

	unchanged := errors.New("no")
	_, err := m.Update(context.Background(), "b2", func(rec *store.TaskRecord) error { rec.Status = mcp.TaskFailed; return unchanged })
	require.ErrorIs(t, err, unchanged)
	rec, err := m.Load(context.Background(), "b2")
	require.NoError(t, err)
	require.Equal(t, mcp.TaskWorking, rec.Status)
}

// One principal fills the store with large results. The tasks of the others stay.
func TestPrincipalOfLargestTasksLosesThem(t *testing.T) {
	l := limits.Limits{}.WithDefaults()
	m := newMemory(func() limits.Limits { return l }, originOf, func(string) {})
	put := func(principal, id string, size int) error {
		err := m.Create(t.Context(), &store.TaskRecord{
			Task: mcp.Task{TaskID: id, Status: mcp.TaskWorking}, Principal: principal, Expires: time.Now().Add(time.Hour),
		})
		if err != nil {
			return err
		}
		_, err = m.Update(t.Context(), id, func(rec *store.TaskRecord) error {
			rec.Status, rec.Result = mcp.TaskCompleted, make(jsontext.Value, size)
			return nil
		})
		return err
	}
	require.NoError(t, put("victim", "v1", 4<<20))
	for n := range 75 {
		require.NoError(t, put("attacker", fmt.Sprint("a", n), 1<<20))
	}
	require.NotNil(t, m.byID["v1"])
	require.NoError(t, put("victim", "v2", 8<<20))
	require.NotNil(t, m.byID["v1"], "the attacker has more")
	require.NoError(t, put("attacker", "last", 1<<20), "at its own expense")
	require.NotNil(t, m.byID["v2"])
	m.check(t, l)
}

// A principal that has most and nothing that could be removed is refused, whatever others have.
func TestLargestPrincipalTakesNothingFromOthers(t *testing.T) {
	l := limits.Limits{MaxTasks: 4}.WithDefaults()
	m := newMemory(func() limits.Limits { return l }, originOf, func(string) {})
	create := func(principal, id string) error {
		return m.Create(t.Context(), &store.TaskRecord{
			Task: mcp.Task{TaskID: id, Status: mcp.TaskWorking}, Principal: principal, Expires: time.Now().Add(time.Hour),
		})
	}
	require.NoError(t, create("victim", "v"))
	_, err := m.Update(t.Context(), "v", func(rec *store.TaskRecord) error { rec.Status = mcp.TaskCompleted; return nil })
	require.NoError(t, err)
	for n := range 3 {
		require.NoError(t, create("attacker", fmt.Sprint(n)))
	}
	require.Error(t, create("attacker", "one more"))
	require.NotNil(t, m.byID["v"])
	m.check(t, l)
}

// A record that was read before its task changed hands says nothing about the further run.
func TestLedgerIgnoresEarlierRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limits.Limits{}.WithDefaults()
		g := newLedger(func() limits.Limits { return l }, originOf, func(string) {}, stub)
		lost := &store.TaskRecord{Task: mcp.Task{TaskID: "a", Status: mcp.TaskWorking}, Expires: time.Now().Add(time.Minute), Replica: "one", Runs: 1, Revision: 7}
		taken := nextRun(lost, "two")
		_, err := g.enter(taken)
		require.NoError(t, err)
		g.note(lost)
		taken.Revision++
		g.note(taken)
		require.Equal(t, map[mcp.TaskStatus]int{mcp.TaskWorking: 1}, g.tally())
		time.Sleep(time.Hour)
		require.Zero(t, g.tally()[mcp.TaskWorking])
	})
}
