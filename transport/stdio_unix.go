//go:build unix

package transport

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// takeStdio duplicates standard input and output above the standard descriptors, and points
// descriptor 1 at standard error. The duplicates are non-blocking, so that they have deadlines
// and closing them wakes a blocked call. It catches SIGPIPE until the process ends, because by
// default a Go program dies when it writes to a standard descriptor without a reader: the client
// may have closed standard error, and the last log lines come after the connection. It does not
// ignore the signal, because children inherit an ignored signal.
func takeStdio() (*stdio, error) {
	signal.Notify(pipeSignals, syscall.SIGPIPE)
	var undo []func()
	restore := func() {
		for i := len(undo) - 1; i >= 0; i-- {
			undo[i]()
		}
	}
	in, pollIn, err := duplicate(0, "stdin", &undo)
	if err != nil {
		restore()
		return nil, err
	}
	out, pollOut, err := duplicate(1, "stdout", &undo)
	if err != nil {
		in.Close()
		restore()
		return nil, err
	}
	saved, err := unix.FcntlInt(1, unix.F_DUPFD_CLOEXEC, 3)
	if err == nil {
		err = unix.Dup2(2, 1)
	}
	if err != nil {
		in.Close()
		out.Close()
		restore()
		return nil, fmt.Errorf("transport: keep stray prints off stdout: %w", err)
	}
	undo = append(undo, func() {
		_ = unix.Dup2(saved, 1)
		_ = unix.Close(saved)
	})
	std := &stdio{out: out, reads: in, writes: out, restore: restore}
	if !pollIn {
		reads := detachReads(in)
		if reads.of.in != in {
			in.Close() // an earlier connection has left its own
		}
		std.reads = reads
	}
	if !pollOut {
		std.writes = detachWrites(out)
	}
	return std, nil
}

// pipeSignals gets the signals that are caught. Nobody reads them.
var pipeSignals = make(chan os.Signal, 1)

// duplicate returns a non-blocking duplicate of a standard descriptor, and whether it can be
// polled. A regular file or a terminal stays blocking: other processes share its flags.
func duplicate(fd int, name string, undo *[]func()) (*os.File, bool, error) {
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, false, fmt.Errorf("transport: duplicate %s: %w", name, err)
	}
	var stat unix.Stat_t
	if err := unix.Fstat(dup, &stat); err != nil {
		_ = unix.Close(dup)
		return nil, false, fmt.Errorf("transport: look at %s: %w", name, err)
	}
	kind := stat.Mode & unix.S_IFMT
	if kind != unix.S_IFIFO && kind != unix.S_IFSOCK {
		return os.NewFile(uintptr(dup), name), false, nil
	}
	flags, err := unix.FcntlInt(uintptr(dup), unix.F_GETFL, 0)
	if err == nil && flags&unix.O_NONBLOCK == 0 {
		err = unix.SetNonblock(dup, true)
		*undo = append(*undo, func() { _ = unix.SetNonblock(fd, false) })
	}
	if err != nil {
		_ = unix.Close(dup)
		return nil, false, fmt.Errorf("transport: make %s non-blocking: %w", name, err)
	}
	return os.NewFile(uintptr(dup), name), true, nil
}

// PeerGone reports whether standard output has no reader.
func (s *stdio) PeerGone() bool {
	raw, err := s.out.SyscallConn()
	if err != nil {
		return false
	}
	gone := false
	_ = raw.Control(func(fd uintptr) { // an error means that our side is closed, and the peer not gone
		polled := []unix.PollFd{{Fd: int32(fd)}}
		n, err := unix.Poll(polled, 0)
		gone = err == nil && n > 0 && polled[0].Revents&unix.POLLERR != 0
	})
	return gone
}
