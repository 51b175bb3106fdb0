package resume

import "time"

// A follower is the replica where a client reads a stream that this process writes. There is one at most: the
// latest. It is guarded by the mutex of its log.
type follower struct {
	replica string      // "" is none
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
		ls.tell(m.From, Gone, m.Stream, 0)
		return
	}
	log.mu.Lock()
	before := log.follower.replica
	if before != m.From {
		log.stopLease()
		log.follower = follower{replica: m.From, lease: time.AfterFunc(followLease, func() { log.left(m.From) })}
	} else {
		log.follower.lease.Reset(followLease)
	}
	seq := log.seq
	log.mu.Unlock()
	switch {
	case before == m.From:
	case !log.of.Followed():
		log.unfollow(Gone)
		return
	default:
		ls.tell(before, Taken, m.Stream, 0)
	}
	ls.tell(m.From, Grown, m.Stream, seq)
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
		to, seq := l.follower.replica, l.seq
		l.mu.Unlock()
		l.logs.tell(to, Grown, l.key, seq)
	})
}

// unfollow ends the follower, which it tells why.
func (l *Log) unfollow(why Kind) {
	l.mu.Lock()
	to := l.follower.replica
	l.stopLease()
	l.follower = follower{}
	l.mu.Unlock()
	l.logs.tell(to, why, l.key, 0)
}

// left notes that a replica does not follow any more.
func (l *Log) left(replica string) {
	l.mu.Lock()
	was := l.follower.replica == replica
	if was {
		l.stopLease()
		l.follower = follower{}
	}
	l.mu.Unlock()
	if was {
		l.of.Unfollowed()
	}
}
