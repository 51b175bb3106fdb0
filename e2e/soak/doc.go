// Package soak runs hundreds of clients against one server, in both eras and on all
// transports. Some use the protocol well. The others cancel, disconnect in the middle of a
// call, close one half of their connection, read slowly or not at all, reuse ids, flood the
// server, send garbage, close their streams, delete their sessions, or send nothing.
//
//	go test ./soak                              five seconds of it
//	go test ./soak -v -soak 10m                 as "make soak SOAK=10m" runs it
//	go test ./soak -v -soak 10m -clients 400    with more clients of each kind
//
// Each client checks its answers: they match its requests, no id gets two, a cancelled one
// gets none. At the end the server must be at rest: every request is accounted for, there
// are no more goroutines and memory than after the warm-up, and no goroutine has leaked
// (GOEXPERIMENT=goroutineleakprofile lets the runtime check that).
package soak
