package service

import (
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// A givingWay is a listener that takes new connections when the open ones had their turn.
//
// While its processors are busy, the Go runtime asks the kernel once in 10 ms which connections have something to
// read, and hears of 128 at a time. New connections need none of that: accept does not wait while there are any,
// and their first request is mostly there. So a flood of them would run before all open connections. That is why
// Accept waits for the answer to one such question. If the answer takes long and the open connections are of
// several callers, it waits twice as long again, because a connection is more work than to accept it. The longer it has
// waited the more connections it takes then, so that new callers get in however busy the processors are.
//
// The plain version is to accept at once. While 500 callers hang up, the 99th percentile of the others is 59 ms with it,
// and 13 ms so (e2e/attack/README.md has the price, too).
type givingWay struct {
	net.Listener
	several func() bool // the open connections are of several callers

	credit atomic.Int64 // connections that may be taken before the next question

	start sync.Once
	// The runtime hears of what is written to ask after all that the kernel has told it before.
	ask, asked *os.File
	answers    chan struct{}
}

const (
	quickAnswer  = 200 * time.Microsecond // the longest answer of processors that are not busy
	longestPause = 20 * time.Millisecond  // after an answer
	waitForOne   = time.Millisecond       // that much waiting lets one more connection in
)

func giveWay(l net.Listener, several func() bool) *givingWay {
	return &givingWay{Listener: l, several: several, answers: make(chan struct{})}
}

// Accept implements net.Listener.
func (l *givingWay) Accept() (net.Conn, error) {
	began := time.Now()
	runtime.Gosched() // for what can run already
	if l.credit.Add(-1) < 0 && l.poll() {
		pause, credit := l.after(time.Since(began))
		l.credit.Store(credit)
		time.Sleep(pause)
	}
	return l.Listener.Accept()
}

// after says what follows an answer that took so long: how long Accept waits, and how many connections more it may take then
// before it asks again.
func (l *givingWay) after(took time.Duration) (pause time.Duration, credit int64) {
	if took > quickAnswer && l.several() {
		pause = min(2*took, longestPause)
	}
	return pause, int64((took + pause) / waitForOne)
}

// poll waits until the runtime has asked the kernel what the connections have to read. It reports false if it could not
// wait: without a pipe, or after Close. On systems whose pipes are not asked about like connections it
// waits for less.
func (l *givingWay) poll() bool {
	l.start.Do(func() {
		var err error
		if l.asked, l.ask, err = os.Pipe(); err == nil {
			go l.answer()
		}
	})
	if _, err := l.ask.Write([]byte{0}); err != nil { // a nil file has an error, too
		return false
	}
	<-l.answers
	return true
}

// answer runs until Close.
func (l *givingWay) answer() {
	defer close(l.answers)
	for one := make([]byte, 1); ; {
		if _, err := l.asked.Read(one); err != nil {
			return
		}
		l.answers <- struct{}{}
	}
}

// Close implements net.Listener.
func (l *givingWay) Close() error {
	l.start.Do(func() {}) // no pipe any more
	l.ask.Close()
	l.asked.Close()
	return l.Listener.Close()
}
