package resume

import "sync"

// A following is what a reader knows of a stream that another replica writes.
type following struct {
	stream, writer string
	number         uint64        // of the reader, in this process
	news           chan struct{} // capacity 1: there is something to look at

	mu    sync.Mutex // guards the rest
	heard bool       // since the last question
	seq   uint64     // of the last event that the writer has told of
	ended Kind       // Gone or Taken, or ""
}

// hear takes what the writer tells.
func (f *following) hear(m Signal) {
	f.mu.Lock()
	f.heard = true
	if m.Kind == Grown {
		f.seq = max(f.seq, m.Seq)
	} else {
		f.ended = m.Kind
	}
	f.mu.Unlock()
	select {
	case f.news <- struct{}{}:
	default:
	}
}

// state returns what the writer has told.
func (f *following) state() (heard bool, seq uint64, ended Kind) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.heard, f.seq, f.ended
}

// follow begins to follow a stream.
func (ls *Logs) follow(key string) *following {
	writer, _ := writerOf(key)
	f := &following{stream: key, writer: writer, number: ls.events.store.shared().readers.Add(1), news: make(chan struct{}, 1)}
	ls.mu.Lock()
	if ls.following == nil {
		ls.following = map[string]*following{}
	}
	ls.following[key] = f
	ls.mu.Unlock()
	ls.ask(f)
	return f
}

// ask asks the writer how far the stream is.
func (ls *Logs) ask(f *following) {
	f.mu.Lock()
	f.heard = false
	f.mu.Unlock()
	ls.tell(f.writer, Signal{Kind: Follow, Stream: f.stream, Reader: f.number})
}

// leave ends what follow has begun.
func (ls *Logs) leave(f *following) {
	ls.mu.Lock()
	mine := ls.following[f.stream] == f
	if mine {
		delete(ls.following, f.stream)
	}
	ls.mu.Unlock()
	if _, _, ended := f.state(); mine && ended == "" {
		ls.tell(f.writer, Signal{Kind: Leave, Stream: f.stream, Reader: f.number})
	}
}
