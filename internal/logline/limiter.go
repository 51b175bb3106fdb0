package logline

import (
	"sync"
	"time"
)

// A Limiter lets one log line a second, or a few, through for each record and reason, so that neither a
// dying peer with a thousand requests nor a flood of nonsense fills the disk. Its zero value
// is ready to use. It is safe for concurrent use.
//
// A Limiter remembers each pair of record and reason, so these must come from small sets.
type Limiter struct {
	mu   sync.Mutex
	keys map[key]*count
}

type key struct{ record, reason string }

type count struct {
	since    time.Time // the second in which lines are counted begins here
	lines    int
	silenced int
}

// Allow reports whether a line may be written at the given time. If it may, silenced is the
// number of lines that were not allowed since the last one.
func (l *Limiter) Allow(record, reason string, now time.Time) (ok bool, silenced int) {
	return l.AllowSome(1, record, reason, now)
}

// AllowSome is like Allow, with up to n lines a second.
func (l *Limiter) AllowSome(n int, record, reason string, now time.Time) (ok bool, silenced int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.keys[key{record, reason}]
	if c == nil {
		if l.keys == nil {
			l.keys = map[key]*count{}
		}
		c = new(count)
		l.keys[key{record, reason}] = c
	}
	if now.Sub(c.since) >= time.Second {
		c.since, c.lines = now, 0
	}
	if c.lines >= n {
		c.silenced++
		return false, 0
	}
	silenced = c.silenced
	c.lines, c.silenced = c.lines+1, 0
	return true, silenced
}
