//go:build !linux

package main

import (
	"errors"
	"time"
)

// cpuTime is not known here.
func cpuTime(int) (time.Duration, error) {
	return 0, errors.New("the CPU time of another process can be read on Linux only")
}
