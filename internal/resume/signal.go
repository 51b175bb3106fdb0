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

// Arrived takes a signal of another replica.
func (ls *Logs) Arrived(m Signal) {
	switch m.Kind {
	case Fetched:
		if log := ls.live(m.Stream); log != nil {
			log.mu.Lock()
			log.fetched = max(log.fetched, m.Seq)
			log.mu.Unlock()
		}
		ls.events.written(m.Stream, m.Seq)
		ls.events.fetched(m.Stream, m.Seq)
	case Follow:
		ls.followedBy(m)
	case Leave:
		if log := ls.live(m.Stream); log != nil {
			log.left(m.From, m.Reader)
		}
	case Grown, Gone, Taken:
		ls.mu.Lock()
		f := ls.following[m.Stream]
		ls.mu.Unlock()
		if f != nil && (m.Reader == f.number || m.Reader == 0) { // it may be for an earlier reader
			f.hear(m)
		}
	}
}

// tell sends a signal of a stream to another replica.
func (ls *Logs) tell(replica string, m Signal) {
	if shared := ls.events.store.shared(); shared != nil && replica != "" && replica != shared.replica {
		m.From = shared.replica
		ls.session.Tell(replica, m)
	}
}

// tellFetched tells the writer of a stream that its events up to one were replayed.
func (ls *Logs) tellFetched(stream string, seq uint64) {
	if writer, ok := writerOf(stream); ok {
		ls.tell(writer, Signal{Kind: Fetched, Stream: stream, Seq: seq})
	}
}

// live returns the log of a stream that this process writes, or nil.
func (ls *Logs) live(stream string) *Log {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	log := ls.byKey[stream]
	if log == nil || log.stored {
		return nil
	}
	return log
}
