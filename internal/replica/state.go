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

// errFormat says that a later release has written the state, or something else has. This one leaves it
// alone.
var errFormat = errors.New("the state of a session has a format of another release")

func decodeState(raw []byte) (session.SharedState, error) {
	var v sharedValue
	if raw == nil {
		return v.SharedState, nil
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return session.SharedState{}, errors.Join(errFormat, err)
	}
	if v.Format != format {
		return session.SharedState{}, errFormat
	}
	return v.SharedState, nil
}

// Change implements [session.Elsewhere]. What has ended is not changed any more.
func (l *Link) Change(ctx context.Context, id string, ends time.Time, change func(*session.SharedState)) (st session.SharedState, err error) {
	err = l.values.Update(ctx, sessionKey(id), func(old []byte) ([]byte, time.Duration, error) {
		before, err := decodeState(old)
		if err != nil {
			return nil, 0, err
		}
		if st = before; !st.Ended {
			change(&st)
		}
		raw, err := json.Marshal(sharedValue{format, st})
		return raw, time.Until(ends), err
	})
	if err != nil {
		l.lost.Add(1)
		return st, err
	}
	return st, l.say(ctx, sessionsChannel, envelope{State: &stateSignal{id, ends, st}})
}

// Forget implements [session.Elsewhere].
func (l *Link) Forget(ctx context.Context, id string) {
	_ = l.values.Update(ctx, sessionKey(id), func([]byte) ([]byte, time.Duration, error) { return nil, 0, nil })
}
