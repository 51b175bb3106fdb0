// Package transport has the connections that carry MCP between a server and its clients.
//
// A [Conn] carries frames: one JSON-RPC message each, in both directions. [Stdio] returns the one
// over standard input and output, and [Lines] makes one of any byte stream, such as a net.Conn or
// an end of [Memory]. To carry MCP over something else, implement Conn, check it with package
// transporttest, and serve it with the method ServeConn of a server.Server. A server treats all
// connections alike: modern and legacy clients, limits, causes of cancellation, and what becomes
// of each answer.
//
// Streamable HTTP has exchanges and no frames, so that it is not a Conn: a server.Server serves it
// with its method Handler. [Classify] and its classes of errors apply to both.
package transport
