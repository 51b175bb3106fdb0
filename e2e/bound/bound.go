// Package bound has what one request may cost a server. The attacks check it with a server of their own,
// the search of package cost in its own process.
package bound

import "time"

// What one request of any size may take beyond its handler, on a machine that does nothing else.
const (
	CPU    = 250 * time.Millisecond
	Memory = 64 << 20 // bytes that are there at once
	// BatchCPU is CPU for a batch of as many bytes: each of its requests has steps of its own.
	BatchCPU = 400 * time.Millisecond
)

// CPU time depends on the machine. These are the most that a request may take in CPU times of an echo of
// as many bytes: a request of up to SmallBytes, and, where it is more than CPU, one of up to 4 MiB. Fast
// machines echo 4 MiB in 5 ms, slow ones in 12 to 20.
const (
	SmallRatio = 40
	SmallBytes = 64_000
	LargeRatio = 20
	// LargeDecodedRatio is LargeRatio for arguments that become Go values of type any: each item of two bytes becomes a value of
	// its own there.
	LargeDecodedRatio = 40
)
