package evaluate

// bytesPerLevel is how much stack most schemas need for each level of a value: 10 to 20 calls.
const bytesPerLevel = 1 << 10

// The stack need not grow for fewLevels, and grows for no more than manyLevels at once, which is the default of max_depth.
const (
	fewLevels  = 4
	manyLevels = 64
)

// growStack makes room on the stack of this goroutine for an evaluation of so many levels, while there are few calls on it. A
// stack grows by being copied to one of twice its size, and each call on it costs about 100 ns then: of a small value with many levels
// all other work takes less time. The plain version is to leave this out (BenchmarkNested: 60 levels take 4 times as long).
//
//go:noinline
func growStack(levels int) byte {
	var frame [8 * bytesPerLevel]byte
	if levels > 8 {
		frame[levels&7] = growStack(levels - 8)
	}
	return frame[levels&7]
}
