package resume

import "time"

// A follower is the replica where a client reads a stream that this process writes. There is one at most: the
// latest. It is guarded by the mutex of its log.
type follower struct {
	replica string      // "" is none
	reader  uint64      // its number there; 0 if its replica does not number readers
	lease   *time.Timer // ends it
	due     bool        // it will be told of what was appended
}

const (
	// followLease is how long a follower counts that is not heard of.
	followLease = 20 * time.Second
	// tellAfter is how long a follower is not told of an event, so that several that come fast are one.
	tellAfter = 5 * time.Millisecond
)

// followedBy notes that a client reads a stream at another replica, and tells that how far the stream is.
func (ls *Logs) followedBy(m Signal) {
	log := ls.live(m.Stream)
	if log == nil || log.of.Log() == nil {
		ls.tell(m.From, Signal{Kind: Gone, Stream: m.Stream, Reader: m.Reader})
		return
	}
	log.mu.Lock()
	before := log.follower
	if before.replica != m.From {
		log.stopLease()
		log.follower = follower{replica: m.From, lease: time.AfterFunc(followLease, func() { log.left(m.From, 0) })}
	} else {
		log.follower.lease.Reset(followLease)
	}
	log.follower.reader = max(log.follower.reader, m.Reader) // the signal of an earlier reader may come later
	seq := log.seq
	log.mu.Unlock()
	switch {
	case before.replica == m.From:
	case !log.of.Followed():
		log.unfollow(Gone)
		return
	default:
		ls.tell(before.replica, Signal{Kind: Taken, Stream: m.Stream, Reader: before.reader})
	}
	ls.tell(m.From, Signal{Kind: Grown, Stream: m.Stream, Seq: seq, Reader: m.Reader})
}

// stopLease stops the timer of the follower. The caller must hold l.mu.
func (l *Log) stopLease() {
	if l.follower.lease != nil {
		l.follower.lease.Stop()
	}
}

// grown has the follower told of what was appended. The caller must hold l.mu.
func (l *Log) grown() {
	if l.follower.replica == "" || l.follower.due {
		return
	}
	l.follower.due = true
	time.AfterFunc(tellAfter, func() {
		l.mu.Lock()
		l.follower.due = false
		to, seq := l.follower, l.seq
		l.mu.Unlock()
		l.logs.tell(to.replica, Signal{Kind: Grown, Stream: l.key, Seq: seq, Reader: to.reader})
	})
}

// unfollow ends the follower, which it tells why.
func (l *Log) unfollow(why Kind) {
	l.mu.Lock()
	to := l.follower
	l.stopLease()
	l.follower = follower{}
	l.mu.Unlock()
	l.logs.tell(to.replica, Signal{Kind: why, Stream: l.key, Reader: to.reader})
}

// left notes that a reader at a replica does not follow any more; the number 0 is any reader. It may have left
// when another one had come.
func (l *Log) left(replica string, reader uint64) {
	l.mu.Lock()
	was := l.follower.replica == replica && (l.follower.reader == reader || reader == 0)
	if was {
		l.stopLease()
		l.follower = follower{}
	}
	l.mu.Unlock()
	if was {
		l.of.Unfollowed()
	}
}
