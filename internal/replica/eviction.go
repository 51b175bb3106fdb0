package replica

import (
	"context"
	"errors"
	"time"

	"github.com/vitrine-mcp/vitrine/store"
)

// lookAgainAfter is the pause between two looks at a store that may delete values before their end.
const lookAgainAfter = time.Minute

// check looks whether the store keeps its values, as at each beginning: after an outage it may be another server. Of a
// store that does not it tells once, and looks again until it does.
func (l *Link) check() {
	if l.evicts.Load() || !errors.Is(l.look(), store.ErrEvicts) {
		return
	}
	l.start(func() {
		for l.evicts.Load() {
			select {
			case <-time.After(lookAgainAfter):
				_ = l.look()
			case <-l.done.Done():
				return
			}
		}
	})
}

// look asks the store. An error that does not say that values may be deleted says nothing of that, and changes nothing.
func (l *Link) look() error {
	if l.Store.Check == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(l.done, l.Timeout)
	defer cancel()
	err := l.Store.Check(ctx)
	switch {
	case errors.Is(err, store.ErrEvicts):
		if l.evicts.CompareAndSwap(false, true) {
			l.guard.logger.Error("store.evicts", "error", err)
		}
	case err != nil:
		l.guard.logger.Debug("store.unchecked", "error", err)
	case l.evicts.CompareAndSwap(true, false):
		l.guard.logger.Info("store.keeps")
	}
	return err
}
