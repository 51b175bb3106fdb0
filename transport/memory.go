package transport

import "net"

// Memory returns the two ends of a byte stream in memory: what is written to one is read from
// the other. Writes block until they are read. Use [Lines] to make a [Conn] of an end.
func Memory() (server, client net.Conn) { return net.Pipe() }
