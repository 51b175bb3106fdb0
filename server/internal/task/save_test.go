package task

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/server/internal/notify"
	"github.com/vitrine-mcp/vitrine/store"
)

// An end that cannot be stored counts once, also if two goroutines try to store it at the same time.
func TestEndThatCannotBeStoredCountsOnce(t *testing.T) {
	s := new(replicas).open(t).(*shared)
	service := &Service{hub: new(notify.Hub), records: records{store: s, logger: slog.New(slog.DiscardHandler)}}
	s.values = &interrupted{Values: s.values, by: func() { service.save(t.Context(), s) }}
	s.unsaved.add("task that the store has lost", lateEnd{end: completes(10)})
	service.save(t.Context(), s)
	require.True(t, s.unsaved.empty())
	require.EqualValues(t, 1, service.Unstored())
}

// Interrupted values call a function before the first change of a value.
type interrupted struct {
	store.Values
	by   func()
	once sync.Once
}

func (i *interrupted) Update(ctx context.Context, key string, change func([]byte) ([]byte, time.Duration, error)) error {
	first := false
	i.once.Do(func() { first = true })
	if first {
		i.by()
	}
	return i.Values.Update(ctx, key, change)
}
