package stream

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/share"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// An Output is the budget in bytes of all messages that wait for a writer or are being written.
// Callers share it: see [share.Bytes]. A message is charged to the caller of its stream before
// it is queued, and refunded when its fate is known. Its methods are safe for concurrent use.
type Output struct {
	// Budget must call Shed.
	Budget *share.Bytes
	// CallerOf returns who reads what is written over a connection, with a reference that the
	// output releases.
	CallerOf func(conn any) *share.Caller
	// HasShed is told that streams of a caller were ended, and how many bytes they held.
	HasShed func(largest *share.Caller, streams int, bytes int64)

	mu      sync.Mutex    // guards the rest, and the debt of each stream
	first   *Stream       // of the streams that hold bytes
	leaving int64         // bytes of streams that were ended and have still to give them back
	waiting int64         // bytes of messages that wait for that
	room    chan struct{} // closed when bytes were given back; nil while nobody waits
}

// A debt is what the messages of one stream hold of the budget.
type debt struct {
	bytes      int64
	caller     *share.Caller // with a reference, while bytes is not 0
	shed       bool          // the stream was ended
	prev, next *Stream       // in the list of the output
}

// messageOverhead is about what a waiting message takes beside its frame, in bytes.
const messageOverhead = 256

// FreeAnswer is the size in bytes up to which the one answer of an exchange is not charged. Such
// an answer is a part of what a connection may take.
const FreeAnswer = 4 << 10

// Charge takes the bytes of a message from the budget, and reports whether there was room. A
// message is charged once. Charge may end streams of other callers: no lock may be held.
func (st *Stream) Charge(m *Message) bool {
	o := st.host.Output
	if o == nil || m.charged.from != nil || st.single && m.Kind == Answer && m.Size() <= FreeAnswer {
		return true
	}
	n := m.charge()
	if !o.take(st, n) {
		return false
	}
	m.charged = charge{st, n}
	return true
}

// Reserve is Charge for a message that can wait, at most for patience, for what streams of others
// give back that were ended. A write that blocks takes a moment to end. No more bytes wait than will
// be given back, because those that wait are not charged.
func (st *Stream) Reserve(m *Message, patience time.Duration) bool {
	var timeout <-chan time.Time
	for again := true; ; {
		if st.Charge(m) {
			return true
		}
		o, n := st.host.Output, m.charge()
		room := o.await(n)
		switch {
		case room != nil:
		case again: // it was given back just now
			again = false
			continue
		default:
			return false
		}
		if timeout == nil {
			t := time.NewTimer(patience)
			defer t.Stop()
			timeout = t.C
		}
		late := false
		select {
		case <-room:
		case <-timeout:
			late = true
		}
		o.awaited(n)
		if late {
			return false
		}
	}
}

// NoRoom reports whether [Stream.Reserve] would find no room just now for a message of n bytes, which need
// not be made then.
func (st *Stream) NoRoom(n int) bool {
	o := st.host.Output
	if o == nil {
		return false
	}
	caller := o.CallerOf(st.cfg.Conn)
	defer caller.Release()
	if !o.Budget.Refuses(caller, int64(n)) {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.waiting+int64(n) > o.leaving
}

// await notes that a message of n bytes waits, and returns a channel that is closed when bytes were
// given back; nil if the streams that were ended have not so much to give back.
func (o *Output) await(n int64) <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.waiting+n > o.leaving {
		return nil
	}
	o.waiting += n
	if o.room == nil {
		o.room = make(chan struct{})
	}
	return o.room
}

// awaited notes that such a message does not wait any more.
func (o *Output) awaited(n int64) {
	o.mu.Lock()
	o.waiting -= n
	o.mu.Unlock()
}

// charge returns what the message takes of the budget, in bytes.
func (m *Message) charge() int64 { return int64(cap(m.Frame) + len(m.Rest) + messageOverhead) }

// A charge is what one message holds of the budget.
type charge struct {
	from  *Stream // nil is nothing
	bytes int64
}

// refund gives back what the message was charged.
func (m *Message) refund() {
	if c := m.charged; c.from != nil {
		m.charged = charge{}
		c.from.host.Output.give(c.from, c.bytes)
	}
}

func (o *Output) take(st *Stream, n int64) bool {
	caller := o.CallerOf(st.cfg.Conn)
	if !o.Budget.Take(caller, n) {
		caller.Release()
		return false
	}
	o.mu.Lock()
	d, spare := &st.debt, caller
	if d.bytes == 0 {
		d.caller, spare = caller, nil
		if d.next = o.first; d.next != nil {
			d.next.debt.prev = st
		}
		o.first = st
	}
	d.bytes += n
	if d.shed {
		o.leaving += n
	}
	o.mu.Unlock()
	if spare != nil {
		spare.Release()
	}
	return true
}

// give holds o.mu for so long that the caller of the stream cannot be forgotten before it has
// its bytes back.
func (o *Output) give(st *Stream, n int64) {
	o.mu.Lock()
	d := &st.debt
	o.Budget.Give(d.caller, n)
	if d.shed {
		o.leaving -= n
	}
	if o.room != nil {
		close(o.room)
		o.room = nil
	}
	var last *share.Caller
	if d.bytes -= n; d.bytes == 0 {
		last = d.caller
		if d.prev != nil {
			d.prev.debt.next = d.next
		} else {
			o.first = d.next
		}
		if d.next != nil {
			d.next.debt.prev = d.prev
		}
		*d = debt{}
	}
	o.mu.Unlock()
	if last != nil {
		last.Release()
	}
}

// Shed ends streams of a caller until so many bytes are free or will soon be, those that hold
// most first. It frees some more, because it has to look at all streams.
func (o *Output) Shed(largest *share.Caller, need int64) {
	var streams []*Stream
	o.mu.Lock()
	freed := o.leaving - o.waiting
	if freed < need {
		for st := o.first; st != nil; st = st.debt.next {
			if st.debt.caller == largest && !st.debt.shed {
				streams = append(streams, st)
			}
		}
		slices.SortFunc(streams, func(a, b *Stream) int { return cmp.Compare(b.debt.bytes, a.debt.bytes) })
	}
	n := 0
	for ; n < len(streams) && freed < max(need, o.Budget.Size()/64); n++ {
		d := &streams[n].debt
		d.shed = true
		o.leaving += d.bytes
		freed += d.bytes
	}
	o.mu.Unlock()
	for _, st := range streams[:n] {
		st.shed()
	}
	if n > 0 {
		o.HasShed(largest, n, freed)
	}
}

// Held returns how many bytes wait, and those of how many callers.
func (o *Output) Held() (bytes int64, callers int) { return o.Budget.Used() }

// shed ends the stream because its caller lets too much wait and others need the memory. A
// write that blocks ends as well. A stream that can be resumed loses its reader only: what it
// carries goes to the log.
func (st *Stream) shed() {
	st.mu.Lock()
	if st.phase == failed {
		st.mu.Unlock()
		return
	}
	if st.logging.log != nil {
		if reader := st.exchanges.reader; reader != noReader {
			st.exchanges.fail(reader, mcp.DropOverload)
			st.detach(reader)
		}
		st.mu.Unlock()
		st.signal()
		return
	}
	st.cutOff = true
	if w := &st.wire; w.sink != nil && w.writing {
		w.limited = nil
		w.sink.SetWriteDeadline(time.Now())
	}
	owners := st.owners
	st.owners = nil
	st.mu.Unlock()
	if st.cfg.Loss == LossCancels {
		for _, o := range owners {
			o.Disconnect(mcp.DropOverload)
		}
	}
	st.Fail(mcp.DropOverload)
	if st.cfg.Loss == LossDrops {
		st.orphan(owners)
	}
}

// The methods below tell the delivery of the fate of its message.

func (m *Message) sent() {
	m.refund()
	m.Delivery.Sent()
}

func (m *Message) stored() {
	m.refund()
	if all, ok := m.Delivery.(*array); ok {
		for _, a := range all.answers {
			a.EventID = m.EventID
		}
	}
	m.Delivery.Stored()
}

func (m *Message) dropped(reason mcp.DropReason) {
	m.refund()
	m.Delivery.Dropped(reason)
}
