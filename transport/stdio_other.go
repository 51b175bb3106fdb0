//go:build !unix

package transport

import "os"

// takeStdio uses the standard files as they are: their writes have no deadline,
// and a blocked read is left behind at the end of the process.
func takeStdio() (*stdio, error) {
	std := &stdio{in: os.Stdin, out: os.Stdout, restore: func() {}}
	std.detachReads()
	return std, nil
}
