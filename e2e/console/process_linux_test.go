package console

import "syscall"

// dieWithTests makes the kernel kill a process when the thread ends that has started
// it, so that it does not outlive tests that end without cleaning up, as by a time-out
// of go test. The goroutine that starts it must therefore be locked to its thread.
func dieWithTests() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
