package server

import (
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/internal/session"
)

// listChangeWindow is the window of max_list_changes.
const listChangeWindow = time.Minute

// maxChangedItems bounds the rows of [registrations]. Over it a row loses its place to a new one, and
// its counts go to the row with the name "_OTHER" of its kind.
const maxChangedItems = 512

// registrations counts the items that were replaced and removed, the resources that were updated, and the changes of
// policies, with the code that did it. A program that registers all of its items once leaves no row. It is safe for concurrent use. Its methods must
// not be called with the lock of a registry held.
type registrations struct {
	logger *slog.Logger
	core   *session.Core

	mu    sync.Mutex // guards the rest
	rows  map[registrationKey]*session.RegistrationInfo
	lists map[session.ListChange]uint64
	// recent are the changes in the present window, by kind.
	recent map[string]*changeWindow
}

// kindPolicies is the kind of the row of the policies, whose change may change all lists.
const kindPolicies = "policies"

type registrationKey struct{ kind, name string }

// A changeWindow counts the replaced and removed items of one kind, or the changes of the policies, in one window.
type changeWindow struct {
	began   time.Time
	changes int
}

func newRegistrations(logger *slog.Logger, core *session.Core) *registrations {
	return &registrations{
		logger: logger, core: core, rows: map[registrationKey]*session.RegistrationInfo{},
		lists: map[session.ListChange]uint64{}, recent: map[string]*changeWindow{},
	}
}

// keyOfRow returns the key of an item's row. Names are cut.
func keyOfRow(kind, name string) registrationKey {
	return registrationKey{kind, logline.Printable(name, 128)}
}

// added counts a new item. It becomes a part of a row if the name was removed before.
func (g *registrations) added(kind, name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lists[session.ListChange{Kind: kind, Change: session.ListAdded}]++
	if row := g.rows[keyOfRow(kind, name)]; row != nil {
		row.Added++
		row.Last, row.Place = time.Now(), callerPlace()
	}
}

// replaced counts a definition in the place of another one. listed tells whether lists show the
// difference.
func (g *registrations) replaced(kind, name string, listed bool) {
	var lists []string
	if listed {
		lists = []string{kind}
	}
	g.change(kind, name, lists, func(row *session.RegistrationInfo) string {
		row.Replaced++
		if !listed {
			row.Equal++
		}
		return session.ListReplaced
	})
}

// removed counts an item that was removed.
func (g *registrations) removed(kind, name string) {
	g.change(kind, name, []string{kind}, func(row *session.RegistrationInfo) string {
		row.Removed++
		return session.ListRemoved
	})
}

// updated counts that subscribers are told of a resource.
func (g *registrations) updated(uri string) {
	g.change(auth.KindResource, uri, nil, func(row *session.RegistrationInfo) string {
		row.Updated++
		return ""
	})
}

// policiesChanged counts that clients are told of all lists, because other policies decide who sees their items.
func (g *registrations) policiesChanged() {
	lists := []string{auth.KindTool, auth.KindPrompt, auth.KindResource}
	g.change(kindPolicies, "", lists, func(row *session.RegistrationInfo) string {
		row.Replaced++
		return session.ListPolicies
	})
}

// change counts a change, and logs the first one in a window that is over the limit. lists are the kinds of the lists
// that show it.
func (g *registrations) change(kind, name string, lists []string, count func(*session.RegistrationInfo) string) {
	place, now := callerPlace(), time.Now()
	g.mu.Lock()
	row := g.row(kind, name)
	row.Last, row.Place = now, place
	change := count(row)
	for _, list := range lists {
		g.lists[session.ListChange{Kind: list, Change: change}]++
	}
	over := len(lists) > 0 && g.window(kind, now)
	g.mu.Unlock()
	if over {
		g.core.LimitReached(limits.NameListChanges)
		g.logger.Warn("registration.storm", "kind", kind, "name", cut(name, 128), "place", place,
			"changes", g.core.Limits().MaxListChanges+1, "window", listChangeWindow.String())
	}
}

// window counts a change of a list, and reports whether it is the first over the limit in its window.
// The caller must hold g.mu.
func (g *registrations) window(kind string, now time.Time) (over bool) {
	w := g.recent[kind]
	if w == nil || now.Sub(w.began) >= listChangeWindow {
		w = &changeWindow{began: now}
		g.recent[kind] = w
	}
	w.changes++
	return w.changes == g.core.Limits().MaxListChanges+1
}

// row returns the row of an item. The caller must hold g.mu.
func (g *registrations) row(kind, name string) *session.RegistrationInfo {
	key := keyOfRow(kind, name)
	row := g.rows[key]
	if row == nil {
		if len(g.rows) >= maxChangedItems {
			g.evict()
		}
		row = &session.RegistrationInfo{Kind: kind, Name: key.name}
		g.rows[key] = row
	}
	return row
}

// evict makes room for a row. Rows of resources that are only updated go first, because a program may
// have any number of them. The caller must hold g.mu.
func (g *registrations) evict() {
	var oldest *session.RegistrationInfo
	onlyUpdated := func(row *session.RegistrationInfo) bool { return row.Replaced+row.Removed == 0 }
	for _, row := range g.rows {
		switch {
		case row.Name == otherItems:
		case oldest == nil, onlyUpdated(row) && !onlyUpdated(oldest), onlyUpdated(row) == onlyUpdated(oldest) && row.Last.Before(oldest.Last):
			oldest = row
		}
	}
	delete(g.rows, registrationKey{oldest.Kind, oldest.Name})
	key := registrationKey{oldest.Kind, otherItems}
	sum := g.rows[key]
	if sum == nil {
		sum = &session.RegistrationInfo{Kind: oldest.Kind, Name: otherItems}
		g.rows[key] = sum
	}
	sum.Added, sum.Replaced, sum.Equal, sum.Removed = sum.Added+oldest.Added, sum.Replaced+oldest.Replaced, sum.Equal+oldest.Equal, sum.Removed+oldest.Removed
	sum.Updated += oldest.Updated
	sum.Last, sum.Place = oldest.Last, oldest.Place
}

// otherItems is the name of the row for items that have none.
const otherItems = "_OTHER"

// state returns the rows and the counts of changes.
func (g *registrations) state() (rows []session.RegistrationInfo, lists map[session.ListChange]uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, row := range g.rows {
		rows = append(rows, *row)
	}
	lists = make(map[session.ListChange]uint64, len(g.lists))
	for change, n := range g.lists {
		lists[change] = n
	}
	return rows, lists
}

// thisPackage is how the names of the functions of this package begin.
const thisPackage = "github.com/vitrine-mcp/vitrine/server."

// callerPlace returns the file and line of the code outside of this package that has called it, with two
// folders of the path, as in example/tools/search.go:42.
func callerPlace() string {
	var counters [24]uintptr
	frames := runtime.CallersFrames(counters[:runtime.Callers(2, counters[:])])
	for more := true; more; {
		var f runtime.Frame
		if f, more = frames.Next(); f.Function != "" && !strings.HasPrefix(f.Function, thisPackage) {
			return fmt.Sprintf("%s:%d", lastElements(f.File, 3), f.Line)
		}
	}
	return ""
}

// lastElements returns the last n elements of a path.
func lastElements(path string, n int) string {
	at := len(path)
	for range n {
		if at = strings.LastIndexByte(path[:at], '/'); at < 0 {
			return path
		}
	}
	return path[at+1:]
}
