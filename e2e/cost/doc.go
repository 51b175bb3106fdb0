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
// machines 20 times the CPU of its echo (40, for Go values of type any), and allocate 96 MiB more. A batch is compared with a batch of
// as many echoes. Package bound has what the attacks check too.
//
// An hour on two processors found nothing at commit 6849a7d4, in November 2026: 2,103,480 payloads from seed 18008003015229975265. The
// costliest were the capabilities of a client and arguments of Go types, 38.7 and 36.7 times their echo. Ten minutes of the commit before
// had found arguments of any with lists of one item, inside of each other, at 41 to 44 times. Batches that are served were not searched for
// then. Eighteen minutes at b7da17c6, with these, found nothing in 575,947 payloads from seed 5090437799484143237; a batch that is served took
// 7.4 times as many echoes at most.
//
// A finding is printed with its target, and written to a file that -payload reads again.
package cost
