package main

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// preciseSleep prepares this goroutine for sleep, and returns a function that undoes that. The
// timers of an idle Go process are up to a millisecond late, which is longer than the measured
// times.
func preciseSleep() (undo func()) {
	runtime.LockOSThread()
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) // in nanoseconds; the default is 50 µs
	return func() {
		_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 0, 0, 0, 0) // the default
		runtime.UnlockOSThread()
	}
}

// sleep may return early after a signal.
func sleep(d time.Duration) {
	t := unix.NsecToTimespec(int64(d))
	_ = unix.Nanosleep(&t, nil)
}
