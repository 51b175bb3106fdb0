//go:build unix && !linux

package redistest

import "syscall"

// dieWithTests does nothing: only Linux kills a process with its parent.
func dieWithTests(*syscall.SysProcAttr) {}
