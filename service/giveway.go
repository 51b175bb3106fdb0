package service

import (
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// A givingWay is a listener that takes new connections when the process has heard of what came over the open ones.
//
// While its processors are busy, the Go runtime asks the kernel once in 10 ms which connections have something to
// read, and hears of 128 at a time (on Linux). New connections need none of that: accept does not wait while there are any,
// and their first request is mostly there. So a flood of them would run before all open connections. That is why
// Accept waits until the runtime has heard of all that the kernel had to tell. The longer it has waited the more connections
// it takes then, so that new callers get in however busy the processors are.
//
// Callers who hang up before they are answered wait for nothing, so nothing else bounds how often they come. While there are many of
// those, and the open connections are of several callers, Accept waits four times as long again.
//
// The plain version is to let only those goroutines go first that can run. While 500 callers hang up, the 99th percentile of the
// others is 47 to 107 ms with it, and 10 to 11 ms so on a quiet machine (e2e/attack/README.md).
type givingWay struct {
	net.Listener
	several func() bool // the open connections are of several callers
	hangUps func() bool // many connections end before they are answered
	sleep   func(time.Duration)

	credit atomic.Int64 // connections that may be taken before the next wait

	mu     sync.Mutex // guards the rest
	closed bool
	// A pipe. What is written to in comes out after the runtime has heard of all that the kernel had to tell before.
	in, out *os.File
	heard   chan struct{} // gets a value for each byte that has come out, and is closed with the pipe
}

const (
	busy       = 200 * time.Microsecond // the runtime hears of everything sooner unless the processors are busy
	longest    = 20 * time.Millisecond  // what counts of a wait, and the longest pause after it
	waitForOne = time.Millisecond       // that much waiting lets one more connection in
)

func giveWay(l net.Listener, several, hangUps func() bool) *givingWay {
	return &givingWay{Listener: l, several: several, hangUps: hangUps, sleep: time.Sleep}
}

// Accept implements net.Listener.
func (l *givingWay) Accept() (net.Conn, error) {
	began := time.Now()
	runtime.Gosched() // for what can run already
	if l.credit.Add(-1) < 0 && l.hear() {
		pause, credit := l.after(time.Since(began))
		l.credit.Store(credit)
		l.sleep(pause)
		runtime.Gosched() // for what the runtime has just heard of
	}
	return l.Listener.Accept()
}

// after says what follows a wait: how long Accept pauses, and how many connections more it may take then before
// it waits again.
func (l *givingWay) after(waited time.Duration) (pause time.Duration, credit int64) {
	waited = min(waited, longest)
	if waited > busy && l.several() && l.hangUps() {
		pause = min(4*waited, longest)
	}
	return pause, int64((waited + pause) / waitForOne)
}

// hear waits until the runtime has heard of all that the kernel had to tell. It reports false if it could not wait: without a
// pipe, or after Close. On Windows, where the runtime does not ask for pipes, it waits for less.
func (l *givingWay) hear() bool {
	in, heard := l.pipe()
	if in == nil {
		return false
	}
	if _, err := in.Write([]byte{0}); err != nil {
		return false
	}
	<-heard
	return true
}

// pipe returns the end of the pipe to write to, and what hears from the other end. Both are nil if there is no pipe.
func (l *givingWay) pipe() (*os.File, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.in == nil && !l.closed {
		out, in, err := os.Pipe()
		if err != nil {
			return nil, nil // there are too many open files: the next connection tries again
		}
		l.in, l.out, l.heard = in, out, make(chan struct{})
		go pass(l.out, l.heard)
	}
	return l.in, l.heard
}

// pass tells of each byte that comes out of a pipe, until it is closed.
func pass(out *os.File, heard chan<- struct{}) {
	defer close(heard)
	for one := make([]byte, 1); ; {
		if _, err := out.Read(one); err != nil {
			return
		}
		heard <- struct{}{}
	}
}

// Close implements net.Listener.
func (l *givingWay) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.in != nil {
		l.in.Close()
		l.out.Close()
	}
	return l.Listener.Close()
}
