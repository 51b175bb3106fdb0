package audit

// A chunk holds records of a queue, as many as one write may have. The queue gives the memory of written records back
// chunk by chunk, and copies no record when it grows.
type chunk struct {
	next    *chunk
	n       int // of records
	records [maxEntries]Record
}

// chunks are records in their order. The zero value has none.
type chunks struct{ first, last *chunk }

// maxSpare is the number of chunks whose memory an empty queue keeps.
const maxSpare = 4

// append adds a record to some of the queue's chunks. The caller must hold q.mu.
func (q *queue) append(to *chunks, r *Record) {
	if to.last == nil || to.last.n == maxEntries {
		c := q.spare
		if c == nil {
			c = &chunk{}
		} else {
			q.spare, c.next = c.next, nil
			q.spares--
		}
		if to.last == nil {
			to.first = c
		} else {
			to.last.next = c
		}
		to.last = c
	}
	to.last.records[to.last.n] = *r
	to.last.n++
}

// recycle takes back the memory of a chunk whose records are written. It returns the next chunk.
func (q *queue) recycle(c *chunk) *chunk {
	next := c.next
	clear(c.records[:c.n])
	c.n, c.next = 0, nil
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.spares < maxSpare {
		q.spare, c.next = c, q.spare
		q.spares++
	}
	return next
}
