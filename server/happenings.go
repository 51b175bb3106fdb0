package server

import (
	"fmt"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/server/internal/schema"
)

// Notify tells the clients which want to know of an extension that something has
// happened, by a notification of one's own that belongs to no request. Legacy clients
// want to if they have declared the extension in initialize, and it was on then. Modern
// ones ask for it in the filter of subscriptions/listen, by a member that is named as the
// extension and is true, as in {"com.example/thing":true}; they must declare it, too.
//
// All subscribers are told the same: params must have nothing that is not for each of
// them. They must encode to a JSON object without _meta, or be nil. method is a
// constant of the program, since it labels a counter; the names of the protocol are an
// error, and so is an extension that was not added.
//
// Notify may be called from any goroutine and does not wait for clients. Each is told in
// the order of the calls; one that does not read loses what comes when max_pending_updates
// notifications wait for it, which is counted as that limit. To a legacy HTTP client that
// has no stream open, nothing can be told.
func (s *Server) Notify(extension, method string, params any) error {
	raw, err := ownParams(method, params)
	if err != nil {
		return err
	}
	if schema.At(raw, "_meta") != nil {
		return fmt.Errorf("server: the params of %s: the member _meta is the server's", method)
	}
	if !s.extensions.notifies(extension) {
		return notAdded(method, extension)
	}
	s.happenings.tell(extension, happening{method, raw})
	return nil
}

// ownParams returns the params of a notification of one's own.
func ownParams(method string, params any) (jsontext.Value, error) {
	if err := checkOwnName(method); err != nil || params == nil {
		return nil, err
	}
	raw, err := wire.Marshal(nil, params)
	if err != nil {
		return nil, fmt.Errorf("server: encode the params of %s: %w", method, err)
	}
	if jsontext.Value(raw).Kind() != '{' {
		return nil, fmt.Errorf("server: the params of %s must encode to a JSON object", method)
	}
	return raw, nil
}

// A happening is what Notify tells. Unlike of a change, of which the last one is enough,
// each of it is told.
type happening struct {
	method string
	params jsontext.Value // an object without _meta, or nil; nobody changes it
}

// happenings know who wants to be told of which extension.
//
// Lock order: happenings.mu, then witness.mu.
type happenings struct {
	mu        sync.Mutex
	witnesses map[string]map[*witness]struct{} // by the id of the extension
	sessions  map[*session.Session]struct{}    // that have a witness
}

// join seats a witness for extensions, and returns what takes it away again.
func (h *happenings) join(w *witness, extensions []string) (leave func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.witnesses == nil {
		h.witnesses = map[string]map[*witness]struct{}{}
	}
	for _, id := range extensions {
		if h.witnesses[id] == nil {
			h.witnesses[id] = map[*witness]struct{}{}
		}
		h.witnesses[id][w] = struct{}{}
	}
	return func() {
		h.mu.Lock()
		for _, id := range extensions {
			if delete(h.witnesses[id], w); len(h.witnesses[id]) == 0 {
				delete(h.witnesses, id)
			}
		}
		h.mu.Unlock()
		w.close()
	}
}

// tell notes what has happened for each who wants to know, and sends it to those who
// are not busy. The lock is held while it is noted, so that all are told in one order.
func (h *happenings) tell(extension string, what happening) {
	var idle []*witness
	h.mu.Lock()
	for w := range h.witnesses[extension] {
		if w.note(what) {
			idle = append(idle, w)
		}
	}
	h.mu.Unlock()
	for _, w := range idle {
		w.send()
	}
}

// enlist notes that a session has a witness; false if it had one already.
func (h *happenings) enlist(sess *session.Session) (first bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, there := h.sessions[sess]; there {
		return false
	}
	if h.sessions == nil {
		h.sessions = map[*session.Session]struct{}{}
	}
	h.sessions[sess] = struct{}{}
	return true
}

func (h *happenings) forget(sess *session.Session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.sessions, sess)
}

// A witness is one subscriber to what happens. What it is told next is posted when what
// it was told before was written, as with a feed.
type witness struct {
	// post queues a notification without waiting, as outlet.post does.
	post  func(what happening, done func())
	core  *session.Core
	limit int
	next  func() // w.send

	mu      sync.Mutex // guards the rest
	waiting []happening
	busy    bool
	closed  bool
}

// newWitness returns a witness that is busy until its first send.
func newWitness(core *session.Core, post func(happening, func())) *witness {
	w := &witness{post: post, core: core, limit: core.Limits().MaxPendingUpdates, busy: true}
	w.next = w.send
	return w
}

// note remembers what has happened until it can be told; true if the caller is to send.
func (w *witness) note(what happening) (send bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed:
		return false
	case len(w.waiting) >= w.limit:
		w.core.LimitReached(session.LimitPendingUpdates)
		return false
	}
	w.waiting = append(w.waiting, what)
	send = !w.busy
	w.busy = true
	return send
}

// send posts what waits. It is called when what was posted before was written, and by
// whoever makes the witness busy.
func (w *witness) send() {
	w.mu.Lock()
	n := min(len(w.waiting), maxPosted)
	batch := w.waiting[:n:n]
	if w.waiting = w.waiting[n:]; len(w.waiting) == 0 {
		w.waiting = nil
	}
	w.busy = n > 0
	w.mu.Unlock()
	for i, what := range batch {
		if i == n-1 {
			w.post(what, w.next)
		} else {
			w.post(what, nil)
		}
	}
}

// close forgets what waits, for good.
func (w *witness) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed, w.waiting = true, nil
}
