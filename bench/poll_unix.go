//go:build unix

package main

import (
	"errors"
	"io"
	"net"
	"runtime"
	"syscall"
)

// A poller is a connection whose reader may be told not to sleep until there is something
// to read, but to look again and again. A reader that sleeps is woken by the write of the
// server, in whose CPU time the kernel counts that: on a virtual machine, where the wake-up of
// another core is an interrupt through the hypervisor, up to a fifth of a request. And it sleeps the
// more often, the slower the server is. No client on another machine costs that.
//
// Reads and deadlines are as those of net.Conn; poll must not be called during a read.
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
			return true // even if there is nothing: whoever says false is put to sleep
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
