package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime returns the CPU time that a process has used so far. It reads the process's clock,
// which counts nanoseconds, or /proc, which counts ticks, if the kernel has no such clock.
func cpuTime(pid int) (time.Duration, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(processClock(pid), &t); err == nil {
		return time.Duration(t.Nano()), nil
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	return parseStat(stat)
}

// processClock returns the id of the CPU clock of a process, as clock_getcpuclockid(3) does:
// CPUCLOCK_SCHED of all its threads.
func processClock(pid int) int32 { return int32(^pid<<3 | 2) }

// tick is the unit of /proc/<pid>/stat, which on Linux is the same on all machines.
const tick = time.Second / 100

// parseStat returns utime + stime of a /proc/<pid>/stat.
func parseStat(stat []byte) (time.Duration, error) {
	// The second field, the name in parentheses, may hold both spaces and parentheses.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	const utime, stime = 14 - 3, 15 - 3 // the third field is the first one here
	if len(fields) <= stime {
		return 0, fmt.Errorf("not a /proc/<pid>/stat: %q", stat)
	}
	user, err1 := strconv.ParseInt(string(fields[utime]), 10, 64)
	system, err2 := strconv.ParseInt(string(fields[stime]), 10, 64)
	return time.Duration(user+system) * tick, errors.Join(err1, err2)
}
