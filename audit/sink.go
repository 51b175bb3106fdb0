package audit

import "context"

// A Sink is where records go. One goroutine calls its methods, except Name.
type Sink interface {
	// Name tells the sink from others, as a label of metrics, such as "file". It must be UTF-8.
	Name() string
	// Write writes entries in their order. It returns how many of them, from the first, are written. If
	// that are not all, it returns an error, and the others come again. It must return when ctx is
	// done. It must not keep the entries.
	Write(ctx context.Context, entries []Entry) (n int, err error)
	// Close closes the sink after the last Write.
	Close() error
}

// An Entry is a record with its line.
type Entry struct {
	Record *Record
	// Line is the JSON of the record, with its place in the chain if there is one, without a newline.
	Line []byte
}

// A Resumer is a [Sink] that keeps what earlier processes have written, so that the chain can go on.
type Resumer interface {
	// Last returns the last complete line, or nil, and the incomplete lines after it, separated by newlines. A process leaves
	// them if its writes have ended within a line and it has died then.
	Last() (line, torn []byte, err error)
}
