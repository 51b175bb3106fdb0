package resume

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
