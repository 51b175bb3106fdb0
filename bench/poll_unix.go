//go:build unix

package main

import (
	"errors"
	"io"
	"net"
	"runtime"
	"syscall"
)

// A poller is a connection whose reader can poll instead of sleeping. The write of the server
// wakes a reader that sleeps, and the kernel counts that as CPU time of the server: up to a fifth
// of a request on a virtual machine, where waking another core is an interrupt through the
// hypervisor. The slower the server, the more often the reader sleeps. A client on another
// machine would not cost that.
//
// Reads and deadlines work as for net.Conn. poll must not be called during a read.
type poller struct {
	net.Conn
	raw     syscall.RawConn
	polling bool
}

func newPoller(c net.Conn) (*poller, error) {
	s, ok := c.(syscall.Conn)
	if !ok {
		return nil, errors.New("a connection without a descriptor")
	}
	raw, err := s.SyscallConn()
	return &poller{Conn: c, raw: raw}, err
}

// poll decides whether reads sleep.
func (p *poller) poll(on bool) { p.polling = on }

func (p *poller) Read(b []byte) (n int, err error) {
	if !p.polling {
		return p.Conn.Read(b)
	}
	for {
		var failed error
		err := p.raw.Read(func(fd uintptr) (done bool) {
			n, failed = syscall.Read(int(fd), b)
			return true // also without data, because false would put the reader to sleep
		})
		switch {
		case err != nil:
			return 0, err
		case failed == nil && n == 0 && len(b) > 0:
			return 0, io.EOF
		case failed == nil:
			return n, nil
		case failed != syscall.EAGAIN && failed != syscall.EINTR:
			return 0, failed
		}
		runtime.Gosched()
	}
}
