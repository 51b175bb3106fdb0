package e2e

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience is the time that a test waits for something that must happen. A passing test never
// takes that long.
const patience = 30 * time.Second

// lines collects the lines of a stream as they come.
type lines struct {
	mu    sync.Mutex
	all   []string
	ended bool
	more  chan struct{} // closed and replaced whenever lines arrive
}

// readLines collects the lines of r until it ends.
func readLines(r io.Reader) *lines {
	l := &lines{more: make(chan struct{})}
	go func() {
		in := bufio.NewReader(r)
		for {
			line, err := in.ReadString('\n')
			if line != "" {
				l.update(func() { l.all = append(l.all, strings.TrimRight(line, "\n")) })
			}
			if err != nil {
				l.update(func() { l.ended = true })
				return
			}
		}
	}()
	return l
}

func (l *lines) update(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
	close(l.more)
	l.more = make(chan struct{})
}

// await returns the first line, counted from the given one, that match accepts, and
// the index after it. It fails the test if none comes.
func (l *lines) await(t *testing.T, what string, from int, match func(string) bool) (line string, next int) {
	t.Helper()
	deadline := time.After(patience)
	for i := from; ; {
		l.mu.Lock()
		fresh, ended, more := l.all[min(i, len(l.all)):], l.ended, l.more
		l.mu.Unlock()
		for _, line := range fresh {
			i++
			if match(line) {
				return line, i
			}
		}
		if ended {
			t.Fatalf("the stream ended without %s:\n%s", what, l)
		}
		select {
		case <-more:
		case <-deadline:
			t.Fatalf("no %s:\n%s", what, l)
		}
	}
}

// snapshot returns the lines so far.
func (l *lines) snapshot() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all[:len(l.all):len(l.all)]
}

// text returns all of the stream so far.
func (l *lines) text() string { return strings.Join(l.snapshot(), "\n") }

// String returns the end of the stream so far, for messages.
func (l *lines) String() string {
	const most = 200
	all := l.snapshot()
	return strings.Join(all[max(0, len(all)-most):], "\n")
}

// eventually polls until check returns nil.
func eventually(t *testing.T, check func() error) {
	t.Helper()
	eventuallyWithin(t, patience, check)
}

// eventuallyWithin is eventually with another patience. The longer it waits, the less often it calls check, because a check takes
// processor time from the servers.
func eventuallyWithin(t *testing.T, patience time.Duration, check func() error) {
	t.Helper()
	began := time.Now()
	for {
		err := check()
		if err == nil {
			return
		}
		waited := time.Since(began)
		if waited > patience {
			t.Fatalf("after %v still: %v", patience, err)
		}
		time.Sleep(min(max(waited/16, time.Millisecond), 250*time.Millisecond))
	}
}

// drained waits for the end of the stream.
func (l *lines) drained(t *testing.T) {
	t.Helper()
	eventually(t, func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if !l.ended {
			return errors.New("the stream has not ended")
		}
		return nil
	})
}
