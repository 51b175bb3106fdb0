//go:build !linux

package console

import "syscall"

// dieWithTests does nothing where the kernel cannot do it.
func dieWithTests() *syscall.SysProcAttr { return nil }
