// Package attack attacks real servers. Each test sends what a hostile client would send, and
// checks what comes back and what must not have changed for other callers. README.md lists the
// families.
//
//	go test ./attack                 the short form, as continuous integration runs it
//	go test ./attack -long           with the floods at their full length, as "make attack" does
//	go test ./attack -run Framing    one family
//
// The server under attack is the program in the folder victim; for the search tool it is the
// demonstration service.
package attack
