//go:build !unix

package transport

import "os"

// takeStdio uses the standard files as they are: a blocked read or write stays until the process
// ends.
func takeStdio() (*stdio, error) {
	std := &stdio{in: os.Stdin, out: os.Stdout, writes: detachWrites(os.Stdout), restore: func() {}}
	std.detachReads()
	return std, nil
}
