// Package cost searches for requests that cost a server more than their size allows.
//
//	go test ./cost                     the seeds, and a search of a few seconds
//	go test ./cost -v -search 1h       as "make cost COST=1h" runs it
//	go test ./cost -v -only template   the targets with that word in their name
//
// A target is one place for bytes from outside: the arguments of a tool with a costly schema, a whole
// message, a URI for templates, a cursor, a header, an access token. The search changes the payloads that have
// cost most so far, and keeps what costs more (mutate_test.go). The server runs in this process, and
// is called without a network, so that what is measured is its own cost (meter_test.go). It
// authenticates its callers and trusts a proxy, and requests of the legacy era are of a session. The
// targets that vary how many headers there are go through net/http (wire_test.go).
//
// The bounds are ratios to an echo of as many bytes, so that they hold on any machine: 40 times its CPU
// and 40 times its memory for payloads of up to 64,000 bytes. A message of 4 MiB may take 250 ms of CPU, on slow
// machines 20 times the CPU of its echo (40, for Go values of type any), and allocate 96 MiB more. A batch is compared with a batch of as many echoes. Package bound has what the attacks check too.
//
// An hour on two processors found nothing at commit 753889d4, in November 2026: 1,317,025 payloads from seed 14017086863754307923. The
// costliest were arguments of any and of Go types, 39.8 and 39.5 times their echo. The hour before it, of an earlier commit, had found an
// object of many members after 43 minutes.
//
// A finding is printed with its target, and written to a file that -payload reads again.
package cost
