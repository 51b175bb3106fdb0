package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// The notifications of which watchers hear.
const (
	resourceUpdated = "notifications/resources/updated"
	toolsChanged    = "notifications/tools/list_changed"
)

// A watcher is a client that wants to know when the resource or the list of tools changes. It reads the resource when it
// begins to listen, and when it hears that the resource has changed. It listens again when its stream has ended.
type watcher struct {
	name    string
	connect func(client *http.Client) io.ReadCloser // returns the stream when the server listens; nil if it does not
	reading plainRequest

	mu      sync.Mutex           // guards the rest
	since   time.Time            // since when it listens; zero while it does not
	heard   map[string]time.Time // when it was told last that something has changed, or may have, by notification
	version int                  // of the resource, as it has read it last
}

// watch has a client listen until the load ends. It sends nothing while the load pauses.
func (l *load) watch(t *testing.T, who *watcher) {
	client := httpClient(t)
	l.watchers = append(l.watchers, who)
	l.all.Go(func() {
		for l.ctx.Err() == nil {
			l.working.RLock()
			stream := who.connect(client)
			l.working.RUnlock()
			if stream == nil {
				time.Sleep(20 * time.Millisecond)
				continue
			}
			who.set(func() { who.since = time.Now() })
			l.read(client, who)
			for in := bufio.NewScanner(stream); in.Scan(); {
				who.hear(in.Text())
				if strings.Contains(in.Text(), resourceUpdated) {
					l.read(client, who)
				}
			}
			who.set(func() { who.since = time.Time{} })
			stream.Close()
		}
	})
}

// read lets a watcher read the resource, again and again until there is an answer. Its version never falls.
func (l *load) read(client *http.Client, who *watcher) {
	for l.ctx.Err() == nil {
		l.working.RLock()
		reading := who.reading
		reading.trace = newTrace()
		a, ok := l.ask(l.ctx, client, reading)
		l.working.RUnlock()
		if !ok {
			time.Sleep(20 * time.Millisecond)
			continue
		}
		version, err := versionIn(a.body)
		before := who.lastRead()
		if err != nil || version < before {
			l.fail("a watcher (%s) has read version %d of the resource before, and now %s: %v", who.name, before, a.body, err)
			return
		}
		who.set(func() { who.version = version })
		return
	}
}

// versionIn returns the version in the answer to resources/read.
func versionIn(body string) (int, error) {
	var m struct {
		Result struct {
			Contents []struct{ Text string }
		}
	}
	if err := json.Unmarshal([]byte(body), &m); err != nil {
		return 0, err
	}
	if n := len(m.Result.Contents); n != 1 {
		return 0, fmt.Errorf("%d contents", n)
	}
	return strconv.Atoi(m.Result.Contents[0].Text)
}

func (who *watcher) set(change func()) {
	who.mu.Lock()
	defer who.mu.Unlock()
	change()
}

// hear takes a line of the stream.
func (who *watcher) hear(line string) {
	for _, notification := range []string{resourceUpdated, toolsChanged} {
		if strings.Contains(line, notification) {
			who.set(func() { who.heard[notification] = time.Now() })
		}
	}
}

// knows reports whether the watcher was told of a change after its begin, or has begun to listen after its end.
func (who *watcher) knows(notification string, began, ended time.Time) bool {
	who.mu.Lock()
	defer who.mu.Unlock()
	return who.heard[notification].After(began) || who.since.After(ended)
}

// lastRead returns the version that the watcher has read last.
func (who *watcher) lastRead() int {
	who.mu.Lock()
	defer who.mu.Unlock()
	return who.version
}

// listen opens a stream of events; nil if there is none.
func (l *load) listen(client *http.Client, r plainRequest) (stream io.ReadCloser) {
	resp, sent, ok := l.open(l.ctx, client, r)
	if !ok {
		return nil
	}
	if kind := resp.Header.Get("Content-Type"); kind != "text/event-stream" {
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		l.noteFailed(l.ctx, sent, resp.StatusCode, string(body), fmt.Errorf("%s is no stream of events", kind))
		return nil
	}
	return resp.Body
}

// readsWatched is the request that reads the resource.
var readsWatched = request{id: "read", method: "resources/read", params: object{"uri": watched}}

func (l *load) modernWatcher() *watcher {
	r := request{id: "listen", method: "subscriptions/listen", params: object{
		"notifications": object{"resourceSubscriptions": []string{watched}, "toolsListChanged": true},
	}}
	headers := readsWatched.headers()
	headers.Set("Mcp-Name", watched)
	return &watcher{
		name: "modern", heard: map[string]time.Time{}, reading: plain(headers, readsWatched),
		connect: func(client *http.Client) io.ReadCloser { return l.listen(client, plain(r.headers(), r)) },
	}
}

// legacyWatcher subscribes once, and has the session's own stream.
func (l *load) legacyWatcher(session http.Header) *watcher {
	subscribe := request{id: "subscribe", method: "resources/subscribe", params: object{"uri": watched}, legacy: true}
	subscribed := false
	connect := func(client *http.Client) io.ReadCloser {
		if !subscribed {
			if _, subscribed = l.ask(l.ctx, client, plain(session, subscribe)); !subscribed {
				return nil
			}
		}
		return l.listen(client, plainRequest{
			name: "GET", method: http.MethodGet, headers: session, trace: newTrace(), want: []int{http.StatusOK},
		})
	}
	return &watcher{
		name: "legacy", heard: map[string]time.Time{}, reading: plain(session, readsWatched.inLegacy()), connect: connect,
	}
}
