// Package ask sends the questions of handlers to clients and returns the answers. A handler
// that asks returns an error that says so, and is called again when the answer is there. A
// modern client gets the questions as the result of its request, with the sealed state of the
// earlier rounds, and repeats the request with the answers. A legacy client gets requests while
// its own request waits.
package ask

import (
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/internal/seal"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server/internal/schema"
	"github.com/vitrine-mcp/vitrine/store"
)

// An Asker has what all dialogs of one server share. It is safe for concurrent use.
type Asker struct {
	core    *session.Core
	valid   *schema.Validator
	Logger  *slog.Logger
	name    string             // of the server; the keys depend on it
	sending middleware.Handler // the chain of requests to clients; nil without middlewares
	keys    atomic.Pointer[seal.Ring]
	tickets *tickets     // of states that may be used once; nil if a state may be used again
	uses    store.Values // where replicas claim such states; nil if there is no store
	unasked bool         // answers are taken without a state
	forms   forms
	pages   pages
	lines   logline.Limiter
}

// New returns the asker of a server. Without keys it makes a random one.
func New(core *session.Core, valid *schema.Validator, logger *slog.Logger, name string, keys [][]byte, sending []middleware.Middleware) (*Asker, error) {
	if len(keys) == 0 {
		keys = [][]byte{seal.RandomSecret()}
	}
	ring, err := newRing(name, keys)
	a := &Asker{core: core, valid: valid, Logger: logger, name: name, sending: newSendingChain(sending)}
	a.keys.Store(&ring)
	return a, err
}

// SetSingleUse has each state accepted once, by the process that has issued it. It must be called
// before the first request.
func (a *Asker) SetSingleUse() { a.tickets = newTickets() }

// ShareUses has the states that may be used once accepted by any replica, of all of them by one. It must
// be called before the first request.
func (a *Asker) ShareUses(v store.Values) { a.uses = v }

// TakeUnasked has answers taken without a state. It must be called before the first request.
func (a *Asker) TakeUnasked() { a.unasked = true }

// SetKeys replaces the keys that seal the state of requests. It may be called at any time.
func (a *Asker) SetKeys(keys [][]byte) error {
	if len(keys) == 0 {
		return errors.New("server: no state keys")
	}
	ring, err := newRing(a.name, keys)
	if err == nil {
		a.keys.Store(&ring)
	}
	return err
}

// newRing derives the keys of a server from secrets and from its name. So several servers can use one
// secret, and none accepts the state of another.
func newRing(name string, secrets [][]byte) (seal.Ring, error) {
	ring, err := seal.NewRing("requestState 2 "+name, secrets)
	if err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	return ring, nil
}
