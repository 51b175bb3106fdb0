package server

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A registry has the items of one kind, in the order of registration. It is safe for concurrent
// use.
type registry[T comparable] struct {
	kind   string // of the items, as auth.Operation has it
	logger *slog.Logger
	// changes counts what is registered; nil counts nothing.
	changes *registrations
	// changed is called after every change that lists show, without the lock.
	changed func(items []changedItem)

	mu     sync.RWMutex // guards the rest
	seq    uint64
	order  []*entry[T] // copied on write, so that a reader may keep it
	defs   []T         // the definitions of order, copied with it
	byName map[string]*entry[T]
}

// An entry is one registration. seq grows with each registration and is its place in the list.
// It does not change when other entries are removed, and a replacement keeps it. Replicas that
// register the same items in the same order have the same numbers.
type entry[T comparable] struct {
	seq    uint64
	name   string
	def    T
	target *target
	// shown is the digest of the encoded definition. The definition itself may have pointers to
	// values that the caller has changed since.
	shown [sha256.Size]byte
}

// A changedItem is an item that lists do not show as before: what had its name, and what has it now.
type changedItem struct {
	name    string
	targets []*target
}

// put enters a definition: at the end, or atomically in the place of the one with its name, so
// that cursors of lists stay valid. A definition with the same JSON as the one before is no
// change; the list keeps the old one, so that its encoded pages stay valid. put returns the old
// entry, or nil, and an error if the definition cannot be encoded.
func (r *registry[T]) put(name string, def T, to *target) (old, now *entry[T], err error) {
	raw, err := wire.Marshal(nil, def)
	if err != nil {
		return nil, nil, fmt.Errorf("server: %s %q cannot be encoded for the list: %w", r.kind, cut(name, 128), err)
	}
	now = &entry[T]{name: name, def: def, target: to, shown: sha256.Sum256(raw)}
	r.mu.Lock()
	if r.byName == nil {
		r.byName = map[string]*entry[T]{}
	}
	if old = r.byName[name]; old == nil {
		r.seq++
		now.seq = r.seq
		r.order, r.defs = append(slices.Clip(r.order), now), append(slices.Clip(r.defs), def)
	} else {
		r.replace(old, now)
	}
	r.byName[name] = now
	r.mu.Unlock()
	switch {
	case r.changes == nil:
	case old == nil:
		r.changes.added(r.kind, name)
	default:
		r.changes.replaced(r.kind, name, old.shown != now.shown)
	}
	switch {
	case old == nil:
		r.changed([]changedItem{{name, []*target{to}}})
	case old.shown != now.shown:
		r.changed([]changedItem{{name, []*target{old.target, to}}})
	}
	return old, now, nil
}

// enter registers an item or replaces the one with its name. changed reports whether it has
// replaced an item with another definition or other static content.
func (r *registry[T]) enter(name string, def T, to *target) (changed bool, err error) {
	old, now, err := r.put(name, def, to)
	if err != nil || old == nil {
		return false, err
	}
	listed := old.shown != now.shown
	logReplaced(r.logger, r.kind, name, listed)
	return listed || !bytes.Equal(old.target.content, to.content), nil
}

// logReplaced logs that a registration has replaced another one.
func logReplaced(logger *slog.Logger, kind, name string, listChanged bool) {
	logger.Debug("registration.replaced", "kind", kind, "name", cut(name, 128), "list_changed", listChanged)
}

// replace puts an entry in the place of another. The caller must hold r.mu.
func (r *registry[T]) replace(old, now *entry[T]) {
	at := slices.Index(r.order, old)
	now.seq = old.seq
	r.order = slices.Clone(r.order)
	r.order[at] = now
	if old.shown == now.shown {
		now.def = old.def
		return
	}
	r.defs = slices.Clone(r.defs)
	r.defs[at] = now.def
}

// remove removes definitions by name. It ignores unknown names.
func (r *registry[T]) remove(names ...string) {
	r.mu.Lock()
	var removed []changedItem
	r.order = slices.DeleteFunc(slices.Clone(r.order), func(e *entry[T]) bool {
		gone := slices.Contains(names, e.name)
		if gone {
			removed = append(removed, changedItem{e.name, []*target{e.target}})
		}
		return gone
	})
	r.defs = make([]T, len(r.order))
	for i, e := range r.order {
		r.defs[i] = e.def
	}
	for _, name := range names {
		delete(r.byName, name)
	}
	r.mu.Unlock()
	for _, item := range removed {
		if r.changes != nil {
			r.changes.removed(r.kind, item.name)
		}
	}
	if len(removed) > 0 {
		r.changed(removed)
	}
}

func (r *registry[T]) get(name string) *entry[T] {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.byName[name]
}

// target returns the target with a name, or nil.
func (r *registry[T]) target(name string) *target {
	if e := r.get(name); e != nil {
		return e.target
	}
	return nil
}

func (r *registry[T]) all() []*entry[T] {
	order, _ := r.listed()
	return order
}

// listed returns all entries and their definitions, which must not be changed.
func (r *registry[T]) listed() ([]*entry[T], []T) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.order, r.defs
}

// used reports whether anything was ever registered.
func (r *registry[T]) used() bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.seq > 0
}

// holds reports whether definitions are registered, in this order.
func (r *registry[T]) holds(defs []T) bool {
	for _, e := range r.all() {
		if len(defs) > 0 && e.def == defs[0] {
			defs = defs[1:]
		}
	}
	return len(defs) == 0
}

// page returns at most size definitions after a cursor, and the cursor of the next page, or "".
// visible reports what the caller may see. If it is nil, the result has all definitions; it is
// the registry's own slice and must not be changed.
func (r *registry[T]) page(cursor string, size int, visible func(to *target) bool) (defs []T, next string, err error) {
	after, err := r.position(cursor)
	if err != nil {
		return nil, "", err
	}
	order, all := r.listed()
	first, _ := slices.BinarySearchFunc(order, after+1, func(e *entry[T], seq uint64) int {
		return int(int64(e.seq) - int64(seq))
	})
	if visible == nil {
		end := first + min(size, len(order)-first)
		if end < len(order) {
			next = r.cursor(order[end-1].seq)
		}
		return all[first:end:end], next, nil
	}
	last := after
	defs = make([]T, 0, min(size, len(order)-first))
	for _, e := range order[first:] {
		if !visible(e.target) {
			continue
		}
		if len(defs) == size {
			return defs, r.cursor(last), nil
		}
		defs, last = append(defs, e.def), e.seq
	}
	return defs, "", nil
}

// cursor returns the opaque cursor of a position. It has the kind of the list, so that it is
// not valid for other lists.
func (r *registry[T]) cursor(after uint64) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "1 %s %d", r.kind, after))
}

func (r *registry[T]) position(cursor string) (uint64, error) {
	if cursor == "" { // the first page
		return 0, nil
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if digits, ours := strings.CutPrefix(string(raw), "1 "+r.kind+" "); err == nil && ours {
		if after, err := strconv.ParseUint(digits, 10, 63); err == nil && r.cursor(after) == cursor {
			return after, nil
		}
	}
	return 0, mcp.NewError(mcp.CodeInvalidParams, "params.cursor is none that this server has issued")
}
