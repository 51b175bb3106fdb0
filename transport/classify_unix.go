//go:build unix

package transport

import "syscall"

// errBadDescriptor is what a write to a descriptor of ours that was closed returns.
const errBadDescriptor = syscall.EBADF

// peerErrors are the errors of a peer that is gone.
var peerErrors = []error{
	syscall.EPIPE, syscall.ECONNRESET, syscall.ECONNABORTED, syscall.ENOTCONN, syscall.ESHUTDOWN,
}
