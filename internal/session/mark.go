package session

// A Mark is what observers note about work for its record in the audit.
type Mark uint32

const (
	// MarkReserved: there is a place for the record.
	MarkReserved Mark = 1 << iota
	// MarkRecorded: the record was made.
	MarkRecorded
	// MarkToolError: the result of the tool says that it is an error.
	MarkToolError
	// MarkArguments: the arguments do not fit the schema.
	MarkArguments
)

// SetMark sets a mark. It reports whether this call did, and not one before. It is safe for concurrent
// use.
func (w *work) SetMark(m Mark) (first bool) { return w.marks.Or(uint32(m))&uint32(m) == 0 }

// HasMark reports whether a mark is set.
func (w *work) HasMark(m Mark) bool { return w.marks.Load()&uint32(m) != 0 }
