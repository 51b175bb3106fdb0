//go:build !unix

package transport

import "syscall"

// errBadDescriptor is the error of a write to a descriptor that we have closed.
const errBadDescriptor = syscall.EBADF

// peerErrors are the errors of a peer that is gone. The last four are Windows'
// ERROR_BROKEN_PIPE, ERROR_NO_DATA, WSAECONNABORTED and WSAECONNRESET.
var peerErrors = []error{
	syscall.EPIPE, syscall.Errno(109), syscall.Errno(232), syscall.Errno(10053), syscall.Errno(10054),
}
