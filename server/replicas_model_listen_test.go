package server_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
)

// This file has what programs tell the clients of sessions on their own streams: notifications and updates of
// resources, each at any replica.

// The resources of the model.
var modelResources = []string{"test://one", "test://two"}

// A modelListener is what the client of a session has read on its own streams.
type modelListener struct {
	world *modelWorld
	name  string

	// subscribed says of each resource whether the client has subscribed to it.
	subscribed map[string]*modelSetting[bool]
	issued     map[string]int // updates of resources for which the client may have subscribed
	loose      bool           // an outage has ended, or goes on: clients are told of resources that may have changed

	mu        sync.Mutex // guards the rest
	lastEvent string
	notified  map[int]time.Time // when the client has heard of the notification with a number
	again     map[int]bool      // those that may come once more
	latest    map[string]int    // the last number of each replica
	updated   map[string]int    // how many updates of each resource
	// questions are the ids of those of calls whose clients have left before they had an event of their stream: "A client
	// that takes no event stream for its answer is asked on the session's own stream".
	questions []string
}

func (w *modelWorld) newListener(name string) *modelListener {
	l := &modelListener{world: w, name: name, subscribed: map[string]*modelSetting[bool]{}, issued: map[string]int{},
		notified: map[int]time.Time{}, latest: map[string]int{}, updated: map[string]int{}}
	for _, uri := range modelResources {
		l.subscribed[uri] = newSetting(false)
	}
	return l
}

// begin notes that the client opens another stream, at another replica if it has moved. "A client that opens its own stream at
// another replica may get a notification of an extension that is on its way then on both."
func (l *modelListener) begin(strict, moved bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.again = map[int]bool{}
	for n, heard := range l.notified {
		l.again[n] = moved && time.Since(heard) < time.Second
	}
	l.lastEvent, l.loose = "", !strict
	l.issued, l.updated = map[string]int{}, map[string]int{}
}

// last returns the id of the last event.
func (l *modelListener) last() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lastEvent
}

// take reads one event of an own stream.
func (l *modelListener) take(id, data string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if id != "" {
		l.lastEvent = id
	}
	if data == "" {
		return
	}
	l.world.note("  %s hears %s", l.name, data)
	var frame struct {
		ID     any
		Method string
		Params struct {
			URI  string
			N    int
			From string
		}
	}
	err := json.Unmarshal([]byte(data), &frame, json.MatchCaseInsensitiveNames(true))
	switch p := frame.Params; {
	case err == nil && frame.Method == happened && l.again[p.N]:
		l.again[p.N] = false
	case err == nil && frame.Method == happened && l.notified[p.N].IsZero() && p.N > l.latest[p.From]:
		l.notified[p.N], l.latest[p.From] = time.Now(), p.N
	case err == nil && frame.Method == string(mcp.NotificationResourcesUpdated):
		l.updated[p.URI]++
	case err == nil && frame.Method == "roots/list" && !slices.Contains(l.questions, frame.ID.(string)):
		l.questions = append(l.questions, frame.ID.(string))
	case err == nil && frame.Method == "notifications/cancelled": // the handler needs no answer any more
	case err == nil && strings.HasSuffix(frame.Method, "/list_changed"): // "A replica that begins publishes the lists of its program"
	default:
		l.world.wrong("%s hears %s on its own stream: %v", l.name, data, err)
	}
}

// check checks that the client has heard of no resource that it has not subscribed to, and of no update twice.
func (l *modelListener) check(w *modelWorld, s *modelSession) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, uri := range modelResources {
		if n := l.updated[uri]; l.loose {
			// "subscribers of all replicas are told that lists and resources may have changed"
			require.True(w.t, n == 0 || slices.Contains(l.subscribed[uri].told, true), "%s hears of %s, and has never subscribed", s.name, uri)
		} else {
			require.LessOrEqual(w.t, n, l.issued[uri], "%s hears of %s too often", s.name, uri)
		}
	}
}

// A modelDue is something that a client must read on its own stream.
type modelDue struct {
	number int    // of a notification
	uri    string // or of an updated resource
	before int    // how many updates of it the client had read
	from   *modelReplica
	at     time.Time
	later  bool // its replica can tell the others only when it has the store again
}

func (d modelDue) String() string {
	return fmt.Sprintf("notification %d, update %q, of %s at %s", d.number, d.uri, d.from.name, d.at.Format(time.TimeOnly))
}

// read reports whether the client has read it.
func (d modelDue) read(l *modelListener) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.notified[d.number].IsZero() || d.uri != "" && l.updated[d.uri] > d.before
}

// void reports whether the client need not read it any more, because the replica that had it has died.
// It may have had it for some milliseconds only, and not have stored it.
func (d modelDue) void(o *modelOwn) bool {
	return d.later && (d.from.killed || o.home.killed) || o.home.killed && o.home.ended.Sub(d.at) < 10*time.Millisecond
}

// ready reports whether the client must have read it by now.
func (d modelDue) ready(o *modelOwn) bool {
	switch {
	case o.conn == nil, d.later && !d.from.well(), !o.home.killed && !o.home.well():
		return false
	case o.conn.at == o.home:
		return true
	}
	// A reader at another replica hears of each event. If it does not, it looks every few seconds.
	wait := 3 * time.Second
	if o.home.killed {
		wait = 15 * time.Second
	}
	return o.sound && o.conn.at.well() && time.Since(o.since) >= wait && time.Since(d.at) >= wait && time.Since(o.home.ended) >= wait
}

// addThings adds what programs tell of.
func addThings(srv *server.Server) {
	server.AddExtension(srv, server.Extension{ID: thing})
	for _, uri := range modelResources {
		server.AddStaticResource(srv, server.Resource{URI: uri, Name: uri[len("test://"):]}, "x")
	}
}

func (w *modelWorld) subscribe() bool   { return w.setSubscription("resources/subscribe", true) }
func (w *modelWorld) unsubscribe() bool { return w.setSubscription("resources/unsubscribe", false) }

// setSubscription subscribes to a resource, or does so no more, at any replica.
func (w *modelWorld) setSubscription(method string, subscribed bool) bool {
	w.rest()
	r, s, uri := w.anyReplica(), pick(w, w.sessions), pick(w, modelResources)
	setting := s.listener.subscribed[uri]
	if !subscribed && !slices.Contains(setting.told, true) {
		return false
	}
	s.lastID++
	w.note("%s: %s of %s at %s", s.name, method, uri, r.name)
	status, text, _ := w.message(r, s, http.MethodPost, withURI(s.lastID, method, uri))
	if w.served(r, s, status, http.StatusOK) {
		require.NotContains(w.t, text, `"error"`)
		setting.set(r, subscribed)
		if o := s.own; o != nil { // what was on its way at another replica does not come if that is told first
			o.due = slices.DeleteFunc(o.due, func(d modelDue) bool { return d.uri == uri && d.later })
		}
	}
	return true
}

// updateResource tells the subscribers of a resource, at any replica.
func (w *modelWorld) updateResource() bool {
	w.rest()
	r, uri := w.anyReplica(), pick(w, modelResources)
	w.note("%s updates %s", r.name, uri)
	for _, s := range w.sessions {
		l, o := s.listener, s.own
		if o == nil || o.home.killed {
			continue
		}
		may := l.subscribed[uri].at(o.home)
		if slices.Contains(may, true) {
			l.issued[uri]++
		}
		if !slices.Contains(may, false) {
			l.mu.Lock()
			before := l.updated[uri]
			l.mu.Unlock()
			o.due = append(o.due, modelDue{uri: uri, before: before, from: r, at: time.Now(), later: !w.reaches(r, o.home)})
		}
	}
	r.srv.ResourceUpdated(uri)
	return true
}

// notify sends a notification of the program to all clients, at any replica.
func (w *modelWorld) notify() bool {
	w.rest()
	r := w.anyReplica()
	w.notifications++
	w.note("%s notifies %d", r.name, w.notifications)
	for _, s := range w.sessions {
		// While the store is away "those of others do not hear of them".
		if o := s.own; o != nil && !o.home.killed && w.reaches(r, o.home) {
			o.due = append(o.due, modelDue{number: w.notifications, from: r, at: time.Now()})
		}
	}
	require.NoError(w.t, r.srv.Notify(thing, happened, map[string]any{"n": w.notifications, "from": r.name}))
	return true
}
