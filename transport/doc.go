// Package transport is what carries MCP between a server and its clients.
//
// A [Conn] carries frames: one JSON-RPC message each, in both directions. [Stdio] is the one over
// standard input and output, and [Lines] makes one of any byte stream, such as a net.Conn or the
// ends of [Memory]. Implement Conn to carry MCP over something else, check it with package
// transporttest, and serve it with the method ServeConn of a server.Server. What a connection
// carries is served alike: modern and legacy clients, limits, causes of cancellation, the fate of
// each answer.
//
// Streamable HTTP has exchanges and no frames, and is no Conn: a server.Server serves it with its
// method Handler. [Classify] and its classes of errors hold for both.
package transport
