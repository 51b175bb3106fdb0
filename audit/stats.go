package audit

import (
	"maps"
	"time"
)

// counters are what a queue counts. They are guarded by its lock.
type counters struct {
	written, refused, failures, head uint64
	lost                             map[string]uint64
	failing                          bool
}

// A SinkStats is the state of the queue of one sink.
type SinkStats struct {
	Sink string
	// Written counts the records that the sink has taken, Lost those that were lost, by the reason
	// ([LostReasons]), Refused the calls that a strict log had no place for, and Failures the writes
	// that have failed and were tried again.
	Written           uint64
	Lost              map[string]uint64
	Refused, Failures uint64
	// Waiting is the number of records in the queue, Bytes about what they take, and Reserved the
	// number of places that calls hold.
	Waiting, Bytes, Reserved int
	// MaxRecords bounds the records that wait, see [Config].
	MaxRecords int
	// Stalled is for how long nothing was written although records wait; 0 if none waits.
	Stalled time.Duration
	// Head is the number of the last line that was written to the chain; 0 without a chain.
	Head uint64
}

// Stats returns the state of each sink's queue.
func (l *Log) Stats() []SinkStats {
	if l == nil {
		return nil
	}
	all := make([]SinkStats, len(l.queues))
	for i, q := range l.queues {
		all[i] = q.state()
	}
	return all
}

func (q *queue) state() SinkStats {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := SinkStats{
		Sink: q.sink.Name(), Written: q.stats.written, Lost: maps.Clone(q.stats.lost), Refused: q.stats.refused,
		Failures: q.stats.failures, Waiting: q.count + q.waiting, Bytes: q.bytes, Reserved: q.reserved, Head: q.stats.head,
		MaxRecords: q.log.config.MaxRecords,
	}
	if !q.since.IsZero() {
		s.Stalled = time.Since(q.since)
	}
	return s
}
