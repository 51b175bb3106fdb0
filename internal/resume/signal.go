package resume

// A Signal is what replicas tell each other of a stream that one of them writes, and another one reads.
type Signal struct {
	Kind   Kind   `json:"kind"`
	Stream string `json:"stream"`
	From   string `json:"from"` // the replica that has sent it
	// Seq is the number of the last event: that was replayed, or that there is.
	Seq uint64 `json:"seq,omitempty"`
	// Reader is the number of a reader at its replica: of Follow and Leave the one that sends it, of Grown,
	// Gone and Taken the one that is told. It is 0 in signals of releases that do not number their readers.
	Reader uint64 `json:"reader,omitempty"`
}

// A Kind says what a signal tells.
type Kind string

// Readers tell the writer [Fetched], [Follow] and [Leave]. It tells them the others.
const (
	Fetched Kind = "fetched" // events were replayed
	Follow  Kind = "follow"  // a client reads the stream here now; the answer is Grown or Gone
	Leave   Kind = "leave"   // it does not any more
	Grown   Kind = "grown"   // there are events up to Seq
	Gone    Kind = "gone"    // no event will follow those that there are
	Taken   Kind = "taken"   // a client reads the stream elsewhere
)
