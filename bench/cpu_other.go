//go:build !linux

package main

import (
	"errors"
	"fmt"
	"time"
)

// cpuTime is not known here.
func cpuTime(int) (time.Duration, error) {
	return 0, fmt.Errorf("the CPU time of another process can be read on Linux only: %w", errors.ErrUnsupported)
}
