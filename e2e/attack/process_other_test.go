//go:build !linux

package attack

import "syscall"

// dieWithTests does nothing where the kernel cannot do it.
func dieWithTests(*syscall.SysProcAttr) {}
