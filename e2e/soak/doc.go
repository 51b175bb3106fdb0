// Package soak lets hundreds of clients loose on one server, in both eras and on
// all transports: some behave, the others cancel, vanish in the middle of a call,
// close one half of their connection, read slowly or not at all, use ids again,
// flood, send garbage, drop their streams, delete their sessions, or fall asleep.
//
//	go test ./soak                              five seconds of it
//	go test ./soak -v -soak 10m                 as "make soak SOAK=10m" runs it
//	go test ./soak -v -soak 10m -clients 400    with more clients of each kind
//
// Each client checks what it can see: answers match requests, no id gets two, a
// cancelled one gets none. At the end the server must be at rest: every request
// accounted for, no goroutine and no memory more than after the warm-up, and no
// goroutine leaked (GOEXPERIMENT=goroutineleakprofile asks the runtime for that).
package soak
