package e2e

import (
	"fmt"
	"net/http"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"
)

// A change is one of which watchers hear.
type change struct {
	notification string // that tells of it
	make         func(*http.Client) bool
}

// changeKinds returns what clients of the load change: the content of a resource, which is the same for all servers, and
// a tool of the server that has the call.
func (l *load) changeKinds() []change {
	return []change{{resourceUpdated, l.changeResource}, {toolsChanged, l.changeTool}}
}

// inTurn returns an operation that makes a change when nobody else makes one.
func (l *load) inTurn(c change) func(*http.Client) bool {
	return func(client *http.Client) bool {
		l.changes.Lock()
		defer l.changes.Unlock()
		return c.make(client)
	}
}

// changeResource writes the next version of the resource, and lets a server tell of it. The caller must hold l.changes.
func (l *load) changeResource(client *http.Client) bool {
	l.version++
	if err := l.writeVersion(); err != nil {
		l.fail("%v", err)
		return false
	}
	return l.trigger(client, "test_trigger_resource_update")
}

// writeVersion writes the version of the resource, so that a server reads all of it or what was there before.
func (l *load) writeVersion() error {
	next := l.watched + ".next"
	if err := os.WriteFile(next, []byte(strconv.Itoa(l.version)), 0o600); err != nil {
		return err
	}
	return os.Rename(next, l.watched)
}

func (l *load) changeTool(client *http.Client) bool {
	return l.trigger(client, "test_trigger_tool_change")
}

// trigger calls a tool that lets its server change something, or say that it has changed.
func (l *load) trigger(client *http.Client, tool string) bool {
	id, a, err := l.exchange(client, "change", nil, call(nil, tool, object{}))
	return l.settle(id, a, err, "It has changed")
}

// A lastChange is one more change of everything, after a time without changes. Nobody makes another one until it is released.
type lastChange struct {
	load         *load
	made         chan struct{}        // closed when all is changed
	began, ended map[string]time.Time // by notification
	release      func()
}

func (l *load) lastChange(t *testing.T) *lastChange {
	t.Helper()
	c := &lastChange{load: l, made: make(chan struct{}), began: map[string]time.Time{}, ended: map[string]time.Time{}}
	c.release = sync.OnceFunc(func() { <-c.made; l.changes.Unlock() })
	client := httpClient(t)
	go func() {
		defer close(c.made)
		l.changes.Lock()
		time.Sleep(500 * time.Millisecond) // what was said of earlier changes has arrived
		for _, k := range l.changeKinds() {
			for done := false; !done && l.ctx.Err() == nil; {
				c.began[k.notification] = time.Now()
				done = k.make(client)
				c.ended[k.notification] = time.Now()
			}
		}
	}()
	return c
}

// await waits until all watchers know of it, and releases it.
func (c *lastChange) await(t *testing.T) {
	t.Helper()
	defer c.release()
	<-c.made
	l := c.load
	for _, who := range l.watchers {
		for _, k := range l.changeKinds() {
			eventually(t, func() error {
				if !who.knows(k.notification, c.began[k.notification], c.ended[k.notification]) {
					return fmt.Errorf("a watcher (%s) has missed the last %s", who.name, k.notification)
				}
				return nil
			})
		}
		eventually(t, func() error {
			if n := who.lastRead(); n < l.version {
				return fmt.Errorf("a watcher (%s) has read version %d of the resource, and there is version %d", who.name, n, l.version)
			}
			return nil
		})
	}
}
