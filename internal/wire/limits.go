package wire

// Limits bounds what [Decode] and [SplitBatch] accept. A field that is zero or negative
// stands for its default.
type Limits struct {
	// MaxBytes is the largest frame, in bytes. Default 4 MiB.
	MaxBytes int
	// MaxDepth is the deepest nesting of objects and arrays in one message; the
	// message itself is level 1. Default 64, at most 10 000.
	MaxDepth int
	// MaxBatch is the largest number of messages in one batch. Default 100.
	MaxBatch int
}

// DefaultLimits returns the default limits.
func DefaultLimits() Limits {
	return Limits{MaxBytes: 4 << 20, MaxDepth: 64, MaxBatch: 100}
}

func (l Limits) withDefaults() Limits {
	d := DefaultLimits()
	if l.MaxBytes > 0 {
		d.MaxBytes = l.MaxBytes
	}
	if l.MaxDepth > 0 {
		d.MaxDepth = min(l.MaxDepth, maxNesting)
	}
	if l.MaxBatch > 0 {
		d.MaxBatch = l.MaxBatch
	}
	return d
}
