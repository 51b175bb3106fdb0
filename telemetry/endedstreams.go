package telemetry

import (
	"slices"

	"github.com/vitrine-mcp/vitrine/internal/order"
	"github.com/vitrine-mcp/vitrine/internal/report"
)

// maxEndedStreams bounds the rows of [endedStreams].
const maxEndedStreams = 256

// endedStreams has the event streams that ended last. If it is full it lets go of the oldest row of the
// caller with the most, so that the streams of one caller do not displace those of all others. The zero value
// is empty. It is not safe for concurrent use.
type endedStreams struct {
	rows    []endedStream // maxEndedStreams, and one more that is free if there are so many
	free    int32
	callers map[streamCaller]*ringShare
	most    ringShares // those of callers
	seq     uint64     // of the latest row
}

// A streamCaller tells whose streams count together.
type streamCaller struct{ client, version, principal string }

// An endedStream is a row, or free.
type endedStream struct {
	report.EndedStream
	seq  uint64
	of   *ringShare // nil if it is free
	next int32      // of the same caller
}

// add adds a row.
func (e *endedStreams) add(row *report.EndedStream) {
	key := streamCaller{row.Client, row.ClientVersion, row.Principal}
	of := e.callers[key]
	at := e.free
	if len(e.rows) <= maxEndedStreams {
		at = int32(len(e.rows))
		e.rows = append(e.rows, endedStream{})
	}
	e.seq++
	if of == nil {
		if e.callers == nil {
			e.callers = map[streamCaller]*ringShare{}
		}
		of = &ringShare{first: at, last: at, oldest: e.seq}
		e.callers[key] = of
		e.most.add(of)
	}
	e.rows[of.last].next = at
	e.rows[at] = endedStream{*row, e.seq, of, noEntry}
	of.last = at
	of.n++
	e.most.fix(of)
	if len(e.rows) > maxEndedStreams {
		e.removeOldest(e.most[0])
	}
}

// removeOldest removes the oldest row of a caller.
func (e *endedStreams) removeOldest(of *ringShare) {
	e.free = of.first
	row := &e.rows[of.first]
	of.first = row.next
	if of.n--; of.n == 0 {
		delete(e.callers, streamCaller{row.Client, row.ClientVersion, row.Principal})
		e.most.remove(of)
	} else {
		of.oldest = e.rows[of.first].seq
		e.most.fix(of)
	}
	*row = endedStream{}
}

// all returns a copy of the rows, the newest first.
func (e *endedStreams) all() []report.EndedStream {
	rows := slices.Clone(e.rows)
	rows = slices.DeleteFunc(rows, func(r endedStream) bool { return r.of == nil })
	order.By(rows, func(a, b *endedStream) bool { return a.seq > b.seq })
	list := make([]report.EndedStream, len(rows))
	for i := range rows {
		list[i] = rows[i].EndedStream
	}
	return list
}
