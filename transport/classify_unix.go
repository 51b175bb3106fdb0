//go:build unix

package transport

import "syscall"

// errBadDescriptor is the error of a write to a descriptor that we have closed.
const errBadDescriptor = syscall.EBADF

// peerErrors are the errors of a peer that is gone.
var peerErrors = []error{
	syscall.EPIPE, syscall.ECONNRESET, syscall.ECONNABORTED, syscall.ENOTCONN, syscall.ESHUTDOWN,
}
