// Package e2e has the end-to-end tests: they start the real programs, and use them with
// common clients (in Go and for Node, alone and behind mcp-remote), a Prometheus server,
// Jaeger, an OTLP receiver, nginx, an authorization server, and raw frames. It is a module
// of its own so that its dependencies do not enter the framework's go.mod.
//
//	go test -short .                    what "make test" runs: the programs and clients in Go
//	go test ./...                       what this machine can run
//	VITRINE_REQUIRE=all go test ./...   everything, or fail
//	GOFLAGS=-race go test ./...         with the race detector, also in the programs
//
// "make tools" in the root of the repository installs the peers. No test sleeps
// and hopes: each waits for a condition, with a deadline far beyond what a slow
// machine needs.
package e2e
