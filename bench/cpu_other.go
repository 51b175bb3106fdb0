//go:build !linux

package main

import (
	"errors"
	"fmt"
	"time"
)

// cpuTime returns an error: only Linux is supported.
func cpuTime(int) (time.Duration, error) {
	return 0, fmt.Errorf("the CPU time of another process can be read on Linux only: %w", errors.ErrUnsupported)
}
