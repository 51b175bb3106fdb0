package audit

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/vitrine-mcp/vitrine/auth"
)

// A queue holds the records that wait for one sink. Its writer is run.
type queue struct {
	log  *Log
	sink Sink

	mu       sync.Mutex // guards the following
	records  chunks
	refusals chunks // of unknown callers
	spare    *chunk // memory for the next records
	spares   int    // the number of these
	count    int    // of records, with those that are being written
	bytes    int    // of those
	waiting  int    // refusals, with those that are being written
	reserved int
	unsaid   uint64    // lost records of which no record tells yet
	since    time.Time // since when nothing was written although something waits
	closed   bool
	stats    counters

	wake chan struct{}
	done chan struct{} // closed when run has returned
	end  error         // of run; read it after done

	// The rest belongs to run.
	chain      *chain
	head       Head   // the last line that is written
	said       uint64 // the number of the head that was published last
	entries    []Entry
	principals []auth.Principal // memory for those of the next entries
	lines      []byte
}

// newQueue returns the queue of a sink, whose chain goes on where an earlier process has ended it.
func newQueue(l *Log, s Sink) (*queue, error) {
	q := &queue{log: l, sink: s, wake: make(chan struct{}, 1), done: make(chan struct{}), chain: newChain(l.config.Key)}
	q.stats.lost = map[string]uint64{}
	var torn [][]byte
	if keeper, ok := s.(Resumer); ok {
		last, rest, err := keeper.Last()
		if err != nil {
			return nil, fmt.Errorf("audit: sink %q: %w", s.Name(), err)
		}
		torn = bytes.FieldsFunc(rest, func(r rune) bool { return r == '\n' })
		if !q.chain.resume(last) && last != nil && q.chain.mac != nil {
			l.logger.Warn("audit.new_chain", "sink", s.Name(),
				"problem", "the last line has another key, none, or was changed: the records begin a chain of their own")
		}
	}
	q.head = Head{q.chain.seq, string(q.chain.code)}
	q.said = q.head.Seq
	if q.chain.mac != nil {
		q.mark(Record{Operation: OperationOpen, Reason: tornReason(torn)})
	}
	return q, nil
}

// mark queues a record of the log about itself. It is queued also if the queue is full.
func (q *queue) mark(r Record) {
	r.Time, r.Outcome = time.Now(), OutcomeOK
	q.mu.Lock()
	defer q.mu.Unlock()
	q.push(&r)
}

// push queues a record. The caller must hold q.mu.
func (q *queue) push(r *Record) {
	q.begin()
	q.append(&q.records, r)
	q.count++
	q.bytes += r.size()
	q.signal()
}

// begin notes that something waits from now on. The caller must hold q.mu.
func (q *queue) begin() {
	if q.count+q.waiting == 0 {
		q.since = time.Now()
	}
}

// signal wakes the writer.
func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// Reasons for the loss of records.
const (
	// LostFull: the queue was full.
	LostFull = "queue_full"
	// LostRefusals: the queue of refusals of unknown callers was full.
	LostRefusals = "refusals_full"
	// LostClosed: the log was closed.
	LostClosed = "closed"
	// LostSink: the sink had not taken the record when the log was closed.
	LostSink = "not_written"
)

// LostReasons returns the reasons for which records are lost. The caller owns the slice.
func LostReasons() []string { return []string{LostFull, LostRefusals, LostClosed, LostSink} }

// lose counts lost records. The caller must hold q.mu.
func (q *queue) lose(reason string, n uint64) {
	q.stats.lost[reason] += n
	if reason != LostClosed {
		q.unsaid += n
		q.signal()
	}
}

// reserve takes a place.
func (q *queue) reserve() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.count+q.reserved >= q.log.config.MaxRecords || q.bytes >= q.log.config.MaxBytes {
		q.stats.refused++
		return false
	}
	q.reserved++
	return true
}

// release gives a place back.
func (q *queue) release() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.reserved--
}

// add queues a record, or counts it as lost.
func (q *queue) add(r *Record, reserved bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if reserved {
		q.reserved--
	}
	switch {
	case q.closed:
		q.lose(LostClosed, 1)
	case !reserved && (q.count+q.reserved >= q.log.config.MaxRecords || q.bytes+r.size() > q.log.config.MaxBytes):
		q.lose(LostFull, 1)
	default:
		q.push(r)
	}
}

// addRefusals queues the refusals of a minute.
func (q *queue) addRefusals(minute []Record) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range minute {
		if q.closed || q.waiting >= q.log.config.MaxRefusals {
			q.lose(LostRefusals, minute[i].Count)
			continue
		}
		q.begin()
		q.append(&q.refusals, &minute[i])
		q.waiting++
	}
	q.signal()
}

// close lets the writer write what there is and end.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.signal()
}

// take returns the chunks of the records that wait, and whether the queue is closed.
func (q *queue) take() (records, refusals *chunk, closed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.unsaid > 0 {
		lost := Record{Time: time.Now(), Operation: OperationLost, Outcome: OutcomeError, Count: q.unsaid}
		q.unsaid = 0
		q.push(&lost)
	}
	records, refusals = q.records.first, q.refusals.first
	q.records, q.refusals = chunks{}, chunks{}
	return records, refusals, q.closed
}

// written notes that the first n records were written.
func (q *queue) written(records []Record, refusals bool, n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stats.written += uint64(n)
	if refusals {
		q.waiting -= n
	} else {
		q.count -= n
		for i := range records[:n] {
			q.bytes -= records[i].size()
		}
	}
	if n > 0 {
		q.since = time.Now()
	}
	if q.count+q.waiting == 0 {
		q.since = time.Time{}
	}
}

// closeError returns what Close says of the queue.
func (q *queue) closeError() error {
	select {
	case <-q.done:
		return q.end
	default:
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return fmt.Errorf("audit: sink %q hangs: %d records are not written", q.sink.Name(), q.count+q.waiting)
}

// awaitGivenUp waits until a writer has ended that was told to give up, for a moment: a sink may
// ignore it.
func (q *queue) awaitGivenUp() {
	ctx, stop := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer stop()
	select {
	case <-q.done:
	case <-ctx.Done():
	}
}
