package redistest

import "syscall"

// dieWithTests makes the kernel kill a process when the tests end without cleaning up, as by a time-out
// of go test.
func dieWithTests(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
