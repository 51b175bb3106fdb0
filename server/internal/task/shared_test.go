package task

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server/internal/notify"
	"github.com/vitrine-mcp/vitrine/store"
)

// A replica has room for one task. When it creates a second one it gives up the first, which has ended as far as it knows, and
// deletes that from the store if this is so.
func TestRecordIsDeletedOnlyIfItsTaskHasEndedHere(t *testing.T) {
	ends := func(rec *store.TaskRecord) error { rec.Status = mcp.TaskCompleted; return nil }
	for name, tt := range map[string]struct {
		now   func(*store.TaskRecord) // what the store has meanwhile
		waits bool                    // the end waits for the store
		kept  bool
	}{
		"it has ended":                          {now: func(rec *store.TaskRecord) { _ = ends(rec) }},
		"its end waits for the store":           {now: func(*store.TaskRecord) {}, waits: true},
		"it runs":                               {now: func(*store.TaskRecord) {}, kept: true},
		"another replica runs it":               {now: func(rec *store.TaskRecord) { rec.Runs, rec.Replica = 2, "b" }, waits: true, kept: true},
		"another replica has run it":            {now: func(rec *store.TaskRecord) { rec.Runs, rec.Replica = 2, "b"; _ = ends(rec) }, kept: true},
		"it runs here again, after another one": {now: func(rec *store.TaskRecord) { rec.Runs = 3 }, waits: true, kept: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := new(replicas)
				s := all.open(t).(*shared)
				s.limits = limits.Limits{MaxTasks: 1}.WithDefaults
				create := func(id string) error {
					return s.Create(t.Context(), &store.TaskRecord{
						Task: mcp.Task{TaskID: id, Status: mcp.TaskWorking}, Replica: "a", Runs: 1, Expires: time.Now().Add(time.Hour),
					})
				}
				require.NoError(t, create("first"))
				_, _, err := s.expect("first", ends)
				require.NoError(t, err)
				if tt.waits {
					s.unsaved.add("first", lateEnd{end: ends})
				}
				require.NoError(t, all.Update(t.Context(), recordKey("first"), func(old []byte) ([]byte, time.Duration, error) {
					rec, err := decodeRecord(old)
					require.NoError(t, err)
					tt.now(rec)
					raw, err := encodeRecord(rec)
					return raw, time.Hour, err
				}))
				require.NoError(t, create("second"))
				require.True(t, s.unsaved.empty())
				_, err = s.Load(t.Context(), "first")
				if tt.kept {
					require.NoError(t, err)
				} else {
					require.Equal(t, store.ErrNoTask, err)
				}
			})
		})
	}
}

// working returns the record of a task that the first replica runs.
func working(id string) *store.TaskRecord {
	return &store.TaskRecord{Task: mcp.Task{TaskID: id, Status: mcp.TaskWorking}, Replica: "a", Runs: 1, Expires: time.Now().Add(time.Hour)}
}

// completes returns a change that ends a task with a result of so many bytes.
func completes(size int) func(*store.TaskRecord) error {
	return func(rec *store.TaskRecord) error {
		rec.Status, rec.Result = mcp.TaskCompleted, jsontext.Value(`"`+strings.Repeat("x", size-2)+`"`)
		rec.Revision++
		return nil
	}
}

// counts returns how many tasks the ledger counts, without the states that no task has.
func counts(s *shared) map[mcp.TaskStatus]int {
	tally := s.tally()
	maps.DeleteFunc(tally, func(_ mcp.TaskStatus, n int) bool { return n == 0 })
	return tally
}

// A change that the store refuses has no effect on the ledger: neither on what it counts, nor on which tasks may be given up.
func TestRefusedChangeDoesNotCount(t *testing.T) {
	for name, refuse := range map[string]func(t *testing.T, all *replicas, s *shared) error{
		"the store is full": func(t *testing.T, all *replicas, s *shared) error {
			all.full.Store(true)
			_, err := s.Update(t.Context(), "task", completes(1000))
			return err
		},
		"the store is full at the second attempt": func(t *testing.T, all *replicas, s *shared) error {
			s.values = overtaken{s.values}
			all.full.Store(true)
			_, err := s.Update(t.Context(), "task", completes(1000))
			return err
		},
		"the second attempt fails": func(t *testing.T, _ *replicas, s *shared) error {
			s.values = overtaken{s.values}
			change, failed := completes(1000), errors.New("failed")
			_, err := s.Update(t.Context(), "task", func(rec *store.TaskRecord) error {
				this := change
				change = func(*store.TaskRecord) error { return failed }
				return this(rec)
			})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := new(replicas)
				s := all.open(t).(*shared)
				require.NoError(t, s.Create(t.Context(), working("task")))
				used := s.share().Used
				require.Error(t, refuse(t, all, s))
				all.full.Store(false)
				require.Equal(t, map[mcp.TaskStatus]int{mcp.TaskWorking: 1}, counts(s))
				require.Equal(t, used, s.share().Used)
				require.Nil(t, s.byID["task"].ended, "it runs")

				_, err := s.Update(t.Context(), "task", completes(1000))
				require.NoError(t, err)
				require.Equal(t, map[mcp.TaskStatus]int{mcp.TaskCompleted: 1}, counts(s))
				require.Equal(t, used+1000-100, s.share().Used, "the request is not in memory any more")
			})
		})
	}
}

// Values are overtaken if each first attempt of a change finds that the value was changed meanwhile.
type overtaken struct{ store.Values }

func (o overtaken) Update(ctx context.Context, key string, change func([]byte) ([]byte, time.Duration, error)) error {
	return o.Values.Update(ctx, key, func(old []byte) ([]byte, time.Duration, error) {
		if value, life, err := change(old); err != nil {
			return value, life, err
		}
		return change(old)
	})
}

// A change that is on its way to the store has its room already, so that changes at the same time keep the limit.
func TestChangeOnItsWayHasItsRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := new(replicas)
		s := all.open(t).(*shared)
		require.NoError(t, s.Create(t.Context(), working("task")))
		used := s.share().Used
		all.writes = func() {
			require.Equal(t, used+1000-100, s.share().Used)
			require.Equal(t, map[mcp.TaskStatus]int{mcp.TaskWorking: 1}, counts(s), "the store does not have its end yet")
		}
		_, err := s.Update(t.Context(), "task", completes(1000))
		require.NoError(t, err)
		require.Equal(t, used+1000-100, s.share().Used)
	})
}

// A replica reads the end of one of its tasks at another replica. What it gives up to make room for that leaves the store, too.
func TestEndAtAnotherReplicaMakesRoom(t *testing.T) {
	for name, others := range map[string]bool{"an older task has ended": true, "there is nothing to give up": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := new(replicas)
				reached := map[string]int{}
				s, other := all.open(t).(*shared), all.open(t).(*shared)
				s.limits = limits.Limits{MaxTaskBytes: 3000}.WithDefaults
				s.reached = func(limit string) { reached[limit]++ }
				if others {
					require.NoError(t, s.Create(t.Context(), working("older")))
					_, err := s.Update(t.Context(), "older", completes(1000))
					require.NoError(t, err)
				}
				require.NoError(t, s.Create(t.Context(), working("task")))
				_, err := other.Update(t.Context(), "task", completes(map[bool]int{true: 2000, false: 4000}[others]))
				require.NoError(t, err)

				service := &Service{hub: new(notify.Hub)}
				service.reader.add([]string{"task"})
				service.read(t.Context(), s)
				require.Equal(t, map[mcp.TaskStatus]int{mcp.TaskCompleted: 1}, counts(s), "the store has its end")
				require.Equal(t, map[string]int{limits.NameTaskBytes: 1}, reached)
				_, err = s.Load(t.Context(), "older")
				require.Equal(t, store.ErrNoTask, err)
			})
		})
	}
}

// An end that waits for the store counts as the end of its task, also if the task is read meanwhile.
func TestReadTaskWhoseEndIsNotStoredYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := new(replicas)
		s := all.open(t).(*shared)
		require.NoError(t, s.Create(t.Context(), working("task")))
		_, _, err := s.expect("task", func(rec *store.TaskRecord) error { // it has no revision before it is stored
			rec.Status, rec.Result = mcp.TaskCompleted, make(jsontext.Value, 1000)
			return nil
		})
		require.NoError(t, err)
		used := s.share().Used
		service := &Service{hub: new(notify.Hub)}
		service.reader.add([]string{"task"})
		service.read(t.Context(), s)
		require.Equal(t, map[mcp.TaskStatus]int{mcp.TaskCompleted: 1}, counts(s))
		require.Equal(t, used, s.share().Used)
		_, err = s.Update(t.Context(), "task", completes(1000))
		require.NoError(t, err)
		require.Equal(t, used, s.share().Used)
	})
}
