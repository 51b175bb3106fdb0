package replica

import (
	"context"
	"errors"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/store"
)

// A sharedValue is what the store has of a session.
type sharedValue struct {
	Format int `json:"v"`
	session.SharedState
}

func sessionKey(id string) string { return "session/{" + id + "}" }

// State implements [session.Elsewhere].
func (l *Link) State(ctx context.Context, id string) (st session.SharedState, err error) {
	raw, err := l.values.Get(ctx, sessionKey(id))
	switch {
	case errors.Is(err, store.ErrNoValue):
		return st, nil
	case err != nil:
		return st, err
	}
	return decodeState(raw)
}

// decodeState returns the zero state for a format that this release does not know.
func decodeState(raw []byte) (session.SharedState, error) {
	var v sharedValue
	if raw == nil {
		return v.SharedState, nil
	}
	if err := json.Unmarshal(raw, &v); err != nil || v.Format != format {
		return session.SharedState{}, err
	}
	return v.SharedState, nil
}

// Change implements [session.Elsewhere]. What has ended is not changed any more.
func (l *Link) Change(ctx context.Context, id string, ends time.Time, change func(*session.SharedState)) error {
	var st session.SharedState
	told := false
	err := l.values.Update(ctx, sessionKey(id), func(old []byte) ([]byte, time.Duration, error) {
		before, err := decodeState(old)
		if err != nil {
			return nil, 0, err
		}
		st = before
		if told = st.Ended; !told {
			change(&st)
		}
		raw, err := json.Marshal(sharedValue{format, st})
		return raw, time.Until(ends), err
	})
	switch {
	case err != nil:
		l.lost.Add(1)
		return err
	case told:
		return nil
	}
	return l.say(ctx, sessionsChannel, envelope{State: &stateSignal{id, ends, st}})
}

// recover brings this replica and the store together after one of them has not heard the other: what was
// deleted here meanwhile is told, and what others have changed is read. The replicas do not do that at
// the same moment.
func (l *Link) recover() {
	if !l.recovering.CompareAndSwap(false, true) {
		return
	}
	l.start(func() {
		select {
		case <-time.After(jittered(2*time.Second) - time.Second):
		case <-l.done.Done():
			return
		}
		l.recovering.Store(false) // what is missed from now on needs another one
		for _, d := range l.Core.DeletedSessions() {
			if l.Change(l.done, d.ID, d.Ends, func(st *session.SharedState) { st.Ended, st.Revision = true, st.Revision+1 }) != nil {
				break
			}
		}
		for _, s := range l.Core.SharedSessions() {
			st, err := l.State(l.done, s.ID)
			if err != nil {
				break
			}
			l.Core.StateArrived(s.ID, s.Ends, st)
		}
		l.Missed()
		l.flush()
	})
}
