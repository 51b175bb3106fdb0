package e2e

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A load is clients of all kinds, which work until it ends. Its work is made of operations: a pause waits for
// their end, and begins no others. Each request of a tool has an id of its own.
type load struct {
	front *server
	end   context.CancelFunc // ends what listens
	ctx   context.Context
	all   sync.WaitGroup
	ids   atomic.Int64

	// working is held for reading by each operation, and for writing by a pause.
	working sync.RWMutex
	changes sync.Mutex // held by the client that changes what others watch
	watched string     // the file with the content of the resource
	version int        // what it contains; guarded by changes

	watchers []*watcher

	mu       sync.Mutex           // guards the rest
	away     bool                 // nothing begins that needs the store
	running  map[string]int       // by kind of work
	latest   map[string]time.Time // by kind of work: when the last one that was done has begun
	done     map[string]int
	requests map[string]int // how many plain requests were sent, by name
	notes
}

// notes are what clients have noted since the load has paused last.
type notes struct {
	sent     map[string]*sentCall
	failed   []failedRequest
	deleted  []deletedSession
	failures []string
	wasAway  bool // the store
}

// A sentCall is what a client knows of a request of a tool.
type sentCall struct {
	kind    string
	trace   string // of the header traceparent
	answers int
	lost    string // why there is no answer
	outage  bool   // the store went away while it ran
}

// newLoad starts the clients. The resource that they watch has the content of a file.
func newLoad(t *testing.T, front *server, watched string) *load {
	ctx, end := context.WithCancel(context.Background())
	l := &load{
		front: front, watched: watched, ctx: ctx, end: end, running: map[string]int{}, latest: map[string]time.Time{},
		done: map[string]int{}, requests: map[string]int{}, notes: notes{sent: map[string]*sentCall{}},
	}
	t.Cleanup(l.stop)
	if err := l.writeVersion(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		l.each(t, "plain call, modern", 20*time.Millisecond, l.modernCall)
		l.each(t, "plain call, legacy", 20*time.Millisecond, l.legacyCall(l.session(t)))
		l.watch(t, l.modernWatcher())
		l.watch(t, l.legacyWatcher(l.session(t)))
	}
	l.each(t, "session", 100*time.Millisecond, l.wholeSession)
	for _, c := range l.changeKinds() {
		l.each(t, "change", 300*time.Millisecond, l.inTurn(c))
	}
	for range 3 {
		l.each(t, "question", 50*time.Millisecond, l.question(l.session(t)))
		l.each(t, "resumed stream", 50*time.Millisecond, l.resumedStream(l.session(t)))
		l.each(t, "task", 50*time.Millisecond, l.task)
	}
	return l
}

// session opens a legacy session whose client answers questions.
func (l *load) session(t *testing.T) (headers http.Header) {
	t.Helper()
	headers, ok := l.initialize(httpClient(t))
	if !ok {
		t.Fatalf("no session: %s", l.failed)
	}
	return headers
}

// each does operations of a kind again and again.
func (l *load) each(t *testing.T, kind string, pace time.Duration, operate func(*http.Client) bool) {
	client := httpClient(t)
	l.all.Go(func() {
		for l.ctx.Err() == nil {
			l.operate(kind, func() bool { return operate(client) })
			time.Sleep(pace)
		}
	})
}

func (l *load) operate(kind string, operate func() bool) {
	l.working.RLock()
	defer l.working.RUnlock()
	l.mu.Lock()
	may := !l.away || !slices.Contains(storingKinds, kind)
	if may {
		l.running[kind]++
	}
	l.mu.Unlock()
	if !may {
		return
	}
	began := time.Now()
	done := operate()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running[kind]--; !done {
		return
	}
	l.done[kind]++
	if began.After(l.latest[kind]) {
		l.latest[kind] = began
	}
}

// leaveStore has nothing begin that needs the store, until enterStore. It waits for a moment at which work of each of these
// kinds is under way, and marks its calls.
func (l *load) leaveStore(t *testing.T) {
	t.Helper()
	eventually(t, func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, kind := range storingKinds {
			if l.running[kind] == 0 {
				return fmt.Errorf("no %s is under way", kind)
			}
		}
		l.away, l.wasAway = true, true
		for _, call := range l.sent {
			if call.answers == 0 && call.lost == "" && slices.Contains(storingKinds, call.kind) {
				call.outage = true
			}
		}
		return nil
	})
}

func (l *load) enterStore() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.away = false
}

// stop ends the clients, after what they are about.
func (l *load) stop() {
	l.working.Lock()
	l.end()
	l.working.Unlock()
	l.all.Wait()
}

// fail notes what must not happen.
func (l *load) fail(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failures = append(l.failures, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

// workKinds are the kinds of work, but for changes, which pause now and then.
var workKinds = []string{"plain call, modern", "plain call, legacy", "session", "question", "resumed stream", "task"}

// storingKinds are the kinds of work that need the store.
var storingKinds = []string{"question", "resumed stream", "task"}

// awaitWork waits until work of each kind has begun after a moment, and was done.
func (l *load) awaitWork(t *testing.T, since time.Time) {
	t.Helper()
	eventually(t, func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, kind := range workKinds {
			if !l.latest[kind].After(since) {
				return fmt.Errorf("no %s was done that began after the fault", kind)
			}
		}
		return nil
	})
}

// send sends a request of a tool with an id of its own, and returns the response, whose body the caller closes.
func (l *load) send(client *http.Client, kind string, session http.Header, r request) (id string, resp *http.Response, err error) {
	id = fmt.Sprintf("%s %d", kind, l.ids.Add(1))
	r.id = id
	headers := session.Clone()
	if session == nil {
		headers = r.headers()
	} else {
		r = r.inLegacy()
	}
	call := &sentCall{kind: kind, trace: newTrace()}
	headers.Set("Traceparent", traceparent(call.trace))
	l.mu.Lock()
	call.outage = l.away && slices.Contains(storingKinds, kind)
	l.sent[id] = call
	l.mu.Unlock()
	resp, err = l.do(client, l.ctx, http.MethodPost, headers, r.frame())
	return id, resp, err
}

// do sends an HTTP request.
func (l *load) do(client *http.Client, ctx context.Context, method string, headers http.Header, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, l.front.mcp, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header = headers
	return client.Do(req)
}

func newTrace() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}

// traceparent returns the header of a request with a trace.
func traceparent(trace string) string { return "00-" + trace + "-0000000000000001-00" }

// answered notes the answer to a call.
func (l *load) answered(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent[id].answers++
}

// lose notes that a call has no answer, unless the load has ended.
func (l *load) lose(id, format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sent[id].lost = fmt.Sprintf(format, args...); l.ctx.Err() != nil {
		delete(l.sent, id)
	}
}

// take returns what clients have noted since the last take, while the load pauses.
func (l *load) take() notes {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.notes
	l.notes = notes{sent: map[string]*sentCall{}}
	return all
}

// explain logs what has gone wrong if the test fails before it has taken that: it may be why.
func (l *load) explain(t *testing.T) {
	t.Helper()
	if !t.Failed() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	all := slices.Clone(l.failures)
	for _, r := range l.failed[:min(len(l.failed), maxTold)] {
		all = append(all, r.String())
	}
	if len(all) > 0 {
		t.Logf("before that:\n%s", strings.Join(all, "\n"))
	}
}

// counts returns how much work was done, by kind, and how many plain requests were sent.
func (l *load) counts() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := func(counts map[string]int) string {
		var all []string
		for kind, n := range counts {
			all = append(all, fmt.Sprintf("%s: %d", kind, n))
		}
		slices.Sort(all)
		return strings.Join(all, ", ")
	}
	return list(l.done) + "; requests: " + list(l.requests)
}
