package main

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// preciseSleep prepares this goroutine for sleep, and returns what undoes that. The
// timers of Go are up to a millisecond late when nothing else happens, which is longer
// than what is measured here.
func preciseSleep() (undo func()) {
	runtime.LockOSThread()
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) // nanoseconds; without it, it is 50 µs late
	return func() {
		_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 0, 0, 0, 0) // the default
		runtime.UnlockOSThread()
	}
}

// sleep may return early, when a signal has arrived.
func sleep(d time.Duration) {
	t := unix.NsecToTimespec(int64(d))
	_ = unix.Nanosleep(&t, nil)
}
