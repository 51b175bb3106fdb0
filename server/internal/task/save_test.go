package task

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server/internal/notify"
	"github.com/vitrine-mcp/vitrine/store"
)

// An end that cannot be stored counts once, also if two goroutines try to store it at the same time.
func TestEndThatCannotBeStoredCountsOnce(t *testing.T) {
	s := new(replicas).open(t).(*shared)
	service := &Service{hub: new(notify.Hub), records: records{store: s, logger: slog.New(slog.DiscardHandler)}}
	s.values = &interrupted{Values: s.values, before: func() { service.save(t.Context(), s) }}
	s.unsaved.add("task that the store has lost", lateEnd{end: completes(10)})
	service.save(t.Context(), s)
	require.True(t, s.unsaved.empty())
	require.EqualValues(t, 1, service.Unstored())
}

// A result that waits for the store is too large. Another replica takes the task over before its failure is stored instead.
func TestTaskIsTakenOverBeforeItsFailureIsSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := new(replicas)
		s := all.open(t).(*shared)
		service := &Service{hub: new(notify.Hub), records: records{core: session.New(session.Config{}), store: s, logger: slog.New(slog.DiscardHandler)}}
		rec := working("task")
		rec.TTL = new(int64)
		require.NoError(t, s.Create(t.Context(), rec))
		first := &task{id: "task", run: 1, replica: "a"}
		s.unsaved.add("task", lateEnd{end: first.unlessTakenOver(completes(maxRecordBytes))})
		s.values = &interrupted{Values: s.values, after: func() {
			_, err := all.stores[0].Update(t.Context(), "task", func(rec *store.TaskRecord) error {
				*rec = *nextRun(rec, "b")
				return nil
			})
			require.NoError(t, err)
		}}
		service.save(t.Context(), s)
		rec, err := s.Load(t.Context(), "task")
		require.NoError(t, err)
		require.Equal(t, mcp.TaskWorking, rec.Status, "the other replica runs it")
		require.EqualValues(t, 1, service.Fenced())
		require.True(t, s.unsaved.empty())
	})
}

// Interrupted values call functions before and after the first change of a value.
type interrupted struct {
	store.Values
	before, after func()
	once          sync.Once
}

func (i *interrupted) Update(ctx context.Context, key string, change func([]byte) ([]byte, time.Duration, error)) error {
	first := false
	i.once.Do(func() { first = true })
	if first && i.before != nil {
		i.before()
	}
	err := i.Values.Update(ctx, key, change)
	if first && i.after != nil {
		i.after()
	}
	return err
}
