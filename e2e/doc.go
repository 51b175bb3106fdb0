// Package e2e holds the end-to-end tests: they start the real programs, and drive
// them with the clients that people use (in Go and for Node, by themselves and behind
// mcp-remote), a Prometheus server, Jaeger, an OTLP receiver, nginx, and raw frames. It is a
// module of its own so that nothing of this enters the framework's go.mod.
//
//	go test -short .                    what "make test" runs: the programs and clients in Go
//	go test ./...                       what this machine can run
//	VITRINE_REQUIRE=all go test ./...   everything, or fail
//	GOFLAGS=-race go test ./...         with the race detector in the programs, too
//
// "make tools" in the root of the repository installs the peers. No test sleeps
// and hopes: each waits for a condition, with a deadline far beyond what a slow
// machine needs.
package e2e
