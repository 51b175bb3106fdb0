//go:build !linux

package main

import "time"

// preciseSleep does nothing on this system.
func preciseSleep() (undo func()) { return func() {} }

func sleep(d time.Duration) { time.Sleep(d) }
