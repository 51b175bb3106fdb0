package transport

import "os"

// StdioOf returns the connection over two files that stand for standard input and output.
func StdioOf(in, out *os.File) Conn {
	return Lines(&stdio{out: out, reads: in, writes: out, restore: func() {}})
}

// StdioThatCannotPoll is StdioOf where closing the files wakes no blocked read or write, as of a
// terminal.
func StdioThatCannotPoll(in, out *os.File) Conn {
	return Lines(&stdio{out: out, reads: detachReads(in), writes: detachWrites(out), restore: func() { in.Close() }})
}
