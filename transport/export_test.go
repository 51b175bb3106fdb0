package transport

import "os"

// StdioOf returns the connection over two files that stand for standard input and output.
func StdioOf(in, out *os.File) Conn {
	return Lines(&stdio{in: in, out: out, reads: in, restore: func() {}})
}

// StdioThatCannotPoll is StdioOf where closing the input does not wake a blocked read, as of a
// terminal.
func StdioThatCannotPoll(in, out *os.File) Conn {
	std := &stdio{in: in, out: out, restore: func() { in.Close() }}
	std.detachReads()
	return Lines(std)
}
