//go:build !unix

package transport

import "os"

// takeStdio uses the standard files as they are: their writes have no deadline, and a blocked
// read stays until the process ends.
func takeStdio() (*stdio, error) {
	std := &stdio{in: os.Stdin, out: os.Stdout, restore: func() {}}
	std.detachReads()
	return std, nil
}
