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

// A watcher is a client that wants to know when the resource changes. It listens again when its stream has
// ended, and then reads the resource.
type watcher struct {
	name    string
	connect func(client *http.Client) (io.ReadCloser, error) // returns the stream when the server listens

	mu    sync.Mutex // guards the rest
	since time.Time  // since when it listens, and when it has read; zero while it does not
	heard time.Time  // when it was told last that the resource has changed, or may have
}

// watch has a client listen until the load ends.
func (l *load) watch(t *testing.T, who *watcher) {
	client := httpClient(t)
	l.watchers = append(l.watchers, who)
	l.all.Go(func() {
		for l.ctx.Err() == nil {
			stream, err := who.connect(client)
			if err != nil {
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

// open opens a stream of the load.
func (l *load) open(client *http.Client, method string, headers http.Header, body string) (io.ReadCloser, error) {
	resp, err := l.do(client, l.ctx, method, headers, body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		return nil, fmt.Errorf("status %d", resp.StatusCode)
	}
	return resp.Body, nil
}

func (l *load) modernWatcher() *watcher {
	r := request{id: "listen", method: "subscriptions/listen", params: object{
		"notifications": object{"resourceSubscriptions": []string{watched}},
	}}
	return &watcher{name: "modern", connect: func(client *http.Client) (io.ReadCloser, error) {
		return l.open(client, http.MethodPost, r.headers(), r.frame())
	}}
}

// legacyWatcher subscribes once, and has the session's own stream.
func (l *load) legacyWatcher(session http.Header) *watcher {
	subscribe := request{id: "subscribe", method: "resources/subscribe", params: object{"uri": watched}, legacy: true}
	subscribed := false
	return &watcher{name: "legacy", connect: func(client *http.Client) (io.ReadCloser, error) {
		if !subscribed {
			resp, err := l.open(client, http.MethodPost, session.Clone(), subscribe.frame())
			if err != nil {
				return nil, err
			}
			resp.Close()
			subscribed = true
		}
		return l.open(client, http.MethodGet, session.Clone(), "")
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
