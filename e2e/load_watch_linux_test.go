package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// A watcher is a client that wants to know when the resource changes. When its stream has ended it listens again, and
// takes that for news, as a client does that reads the resource then.
type watcher struct {
	name    string
	connect func(client *http.Client) io.ReadCloser // returns the stream when the server listens; nil if it does not

	mu    sync.Mutex // guards the rest
	since time.Time  // since when it listens, and when it has read; zero while it does not
	heard time.Time  // when it was told last that the resource has changed, or may have
}

// watch has a client listen until the load ends. It does not begin to listen while the load pauses.
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
			for in := bufio.NewScanner(stream); in.Scan(); {
				if strings.Contains(in.Text(), "notifications/resources/updated") {
					who.set(func() { who.heard = time.Now() })
				}
			}
			who.set(func() { who.since = time.Time{} })
			stream.Close()
		}
	})
}

func (who *watcher) set(change func()) {
	who.mu.Lock()
	defer who.mu.Unlock()
	change()
}

// knows reports whether the watcher was told of a change after its begin, or has read the resource after its end.
func (who *watcher) knows(began, ended time.Time) bool {
	who.mu.Lock()
	defer who.mu.Unlock()
	return who.heard.After(began) || who.since.After(ended)
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

func (l *load) modernWatcher() *watcher {
	r := request{id: "listen", method: "subscriptions/listen", params: object{
		"notifications": object{"resourceSubscriptions": []string{watched}},
	}}
	return &watcher{name: "modern", connect: func(client *http.Client) io.ReadCloser {
		return l.listen(client, plain(r.headers(), r))
	}}
}

// legacyWatcher subscribes once, and has the session's own stream.
func (l *load) legacyWatcher(session http.Header) *watcher {
	subscribe := request{id: "subscribe", method: "resources/subscribe", params: object{"uri": watched}, legacy: true}
	subscribed := false
	return &watcher{name: "legacy", connect: func(client *http.Client) io.ReadCloser {
		if !subscribed {
			if _, subscribed = l.ask(l.ctx, client, plain(session, subscribe)); !subscribed {
				return nil
			}
		}
		return l.listen(client, plainRequest{
			name: "GET", method: http.MethodGet, headers: session, trace: newTrace(), want: []int{http.StatusOK},
		})
	}}
}

// lastChange changes the resource once more, after a time without changes, and has nobody change it until the
// returned function was called. That one waits until all listeners know of this change.
func (l *load) lastChange(t *testing.T) (await func()) {
	t.Helper()
	l.changes.Lock()
	time.Sleep(500 * time.Millisecond) // what was said of earlier changes has arrived
	client, made := httpClient(t), make(chan struct{})
	var began, ended time.Time
	go func() {
		defer close(made)
		for done := false; !done && l.ctx.Err() == nil; {
			began = time.Now()
			done = l.changeOnce(client)
			ended = time.Now()
		}
	}()
	return func() {
		t.Helper()
		defer l.changes.Unlock()
		<-made
		for _, who := range l.watchers {
			eventually(t, func() error {
				if !who.knows(began, ended) {
					return fmt.Errorf("a watcher (%s) has missed the last change", who.name)
				}
				return nil
			})
		}
	}
}
