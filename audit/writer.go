package audit

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Bounds of one write, and the time between two. A record that comes to an idle writer is written at
// once; those of a busy server are written together.
const (
	maxEntries = 256
	maxLines   = 256 << 10 // bytes; a line that alone is longer is written alone
	writePause = 10 * time.Millisecond
)

// writerBytes is what a writer and its sink take at most beside the queue, without arguments that a redactor keeps: each
// of them has the lines of one write, in memory that grows.
const writerBytes = 1 << 20

// After a failed write the sink is tried again after minRetry, and then less and less often.
const (
	minRetry = 100 * time.Millisecond
	maxRetry = 5 * time.Second
)

// run writes records until the queue is closed and empty, or ctx is done.
func (q *queue) run(ctx context.Context) {
	defer close(q.done)
	head := time.NewTicker(q.log.config.HeadInterval)
	defer head.Stop()
	for {
		select {
		case <-q.wake:
		case <-head.C:
			q.publish()
			continue
		case <-ctx.Done():
		}
		records, refusals, closed := q.take()
		q.writeAll(ctx, records, false)
		q.writeAll(ctx, refusals, true)
		if closed && records == nil && refusals == nil || ctx.Err() != nil {
			break
		}
		if closed {
			q.signal()
			continue
		}
		sleep(ctx, writePause)
	}
	q.finish(ctx)
}

// finish ends the chain and closes the sink.
func (q *queue) finish(ctx context.Context) {
	if q.chain.mac != nil && ctx.Err() == nil {
		q.mark(Record{Operation: OperationClose})
		records, _, _ := q.take()
		q.writeAll(ctx, records, false)
	}
	q.publish()
	err := q.sink.Close()
	q.mu.Lock()
	defer q.mu.Unlock()
	if left := q.count + q.waiting; left > 0 {
		q.stats.lost[LostSink] += uint64(left)
		err = errors.Join(err, fmt.Errorf("audit: sink %q: %d records were not written", q.sink.Name(), left))
	}
	q.end = err
}

// writeAll writes the records of a chunk and of those that follow it.
func (q *queue) writeAll(ctx context.Context, c *chunk, refusals bool) {
	for c != nil {
		for batch := c.records[:c.n]; len(batch) > 0; {
			n, ok := q.write(ctx, batch, refusals)
			if !ok {
				return
			}
			batch = batch[n:]
		}
		c = q.recycle(c)
	}
}

// write writes the first records of a batch, as many as one write may have, however often it takes. It returns how many
// they are, and false if ctx is done before.
func (q *queue) write(ctx context.Context, batch []Record, refusals bool) (written int, ok bool) {
	entries := q.encode(batch)
	defer q.forgetLines()
	written = len(entries)
	for wait := minRetry; len(entries) > 0; wait = min(2*wait, maxRetry) {
		n, err := q.try(ctx, entries)
		n = min(max(n, 0), len(entries))
		q.advance(entries[:n])
		q.written(batch, refusals, n)
		batch, entries = batch[n:], entries[n:]
		if len(entries) == 0 {
			q.recovered()
			break
		}
		if err == nil {
			err = errors.New("the sink has not written all records, and says nothing")
		}
		if n > 0 {
			wait = minRetry
		}
		q.failed(err, wait)
		if !sleep(ctx, wait) {
			return 0, false
		}
	}
	return written, true
}

// forgetLines lets go of the records that were written, and of a buffer that long lines have made large.
func (q *queue) forgetLines() {
	clear(q.entries)
	if cap(q.lines) > 2*maxLines {
		q.lines = nil
	}
}

// encode returns the entries of the first records of a batch. Their lines hold until the next call.
func (q *queue) encode(batch []Record) []Entry {
	q.entries, q.lines = q.entries[:0], q.lines[:0]
	ends := make([]int, 0, maxEntries)
	for i := range batch {
		batch[i].Principal = q.principal(&batch[i].caller)
		from := len(q.lines)
		q.lines = q.chain.end(batch[i].append(q.lines), from)
		ends = append(ends, len(q.lines))
		if len(q.lines) >= maxLines {
			break
		}
	}
	from := 0
	for i, end := range ends {
		q.entries = append(q.entries, Entry{&batch[i], q.lines[from:end:end]})
		from = end
	}
	return q.entries
}

// advance moves the head of the chain to the last of the entries, which were written.
func (q *queue) advance(entries []Entry) {
	if len(entries) == 0 || q.chain.mac == nil {
		return
	}
	q.head = Head{q.head.Seq + uint64(len(entries)), codeAt(entries[len(entries)-1].Line)}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stats.head = q.head.Seq
}

// try calls the sink and contains its panic.
func (q *queue) try(ctx context.Context, entries []Entry) (n int, err error) {
	defer func() {
		if v := recover(); v != nil {
			n, err = 0, fmt.Errorf("the sink has panicked: %v", v)
		}
	}()
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	return q.sink.Write(ctx, entries)
}

// failed counts and logs a write that has failed; the first one of a row as an error.
func (q *queue) failed(err error, wait time.Duration) {
	q.mu.Lock()
	first := !q.stats.failing
	q.stats.failing = true
	q.stats.failures++
	waiting := q.count + q.waiting
	q.mu.Unlock()
	if first {
		q.log.logger.Error("audit.failed", "sink", q.sink.Name(), "error", err, "waiting", waiting)
		return
	}
	q.log.logger.Debug("audit.failed", "sink", q.sink.Name(), "error", err, "waiting", waiting, "retry_after", wait)
}

// recovered notes that the sink works.
func (q *queue) recovered() {
	q.mu.Lock()
	was := q.stats.failing
	q.stats.failing = false
	q.mu.Unlock()
	if was {
		q.log.logger.Info("audit.recovered", "sink", q.sink.Name())
	}
}

// publish logs the head of the chain, if it has changed: with it the verification finds out that lines
// were cut off at the end.
func (q *queue) publish() {
	if q.head.Seq == q.said {
		return
	}
	q.said = q.head.Seq
	q.log.logger.Info("audit.head", "sink", q.sink.Name(), "head", q.head.String())
}

// sleep waits, and reports whether ctx is not done.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
