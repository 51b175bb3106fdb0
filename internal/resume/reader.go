package resume

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/vitrine-mcp/vitrine/internal/stream"
	"github.com/vitrine-mcp/vitrine/store"
)

// ErrEventsMissing is the error of [Reader.Pump] if the exchange cannot go on without a gap.
var ErrEventsMissing = errors.New("session: the event store does not have what follows")

// A Reader is an exchange that goes on reading a stream whose earlier one was lost or
// closed: first what it has missed, then what comes. Get one from [Logs.Resume].
// Pump and Close belong to one goroutine; Lost may be called from any.
type Reader struct {
	*stream.Exchange
	log    *Log
	seq    uint64        // of the last event that the client has
	events []store.Event // that follow it, as far as they were read from the store
	end    uint64        // the last of them
	done   bool          // Pump has come to the stream's end, or the exchange was closed on purpose
	follow *following    // another replica writes the stream, and it has not ended; else nil

	// Closed is called by Close. May be nil.
	Closed func()
	// Draining is closed when the server ends the streams of other replicas that it reads.
	Draining <-chan struct{}
}

// Resume finds the stream of an event and makes the caller's exchange its reader. The
// error matches [ErrEventUnknown], [ErrStreamTaken], or [mcp.ErrClosed] if the session
// has ended; any other one is the event store's. The reader must be closed.
func (ls *Logs) Resume(ctx context.Context, lastEventID string) (*Reader, error) {
	key, seq, ok := ls.events.parse(lastEventID)
	if !ok {
		return nil, ErrEventUnknown
	}
	log, err := ls.find(key)
	if err != nil {
		return nil, err
	}
	x, err := log.of.Attach()
	switch {
	case errors.Is(err, stream.ErrOver):
		return nil, ErrEventUnknown
	case err != nil:
		return nil, err
	}
	r := &Reader{Exchange: x, log: log, seq: seq}
	if err := r.load(ctx); err != nil {
		r.Lost()
		if r.follow != nil {
			ls.leave(r.follow)
		}
		return nil, err
	}
	log.unfollow(Taken)
	ls.host.Logger.Debug("stream.resumed", append(log.LogAttrs(), "missed", len(r.events))...)
	return r, nil
}

// Stream returns the stream that is read.
func (r *Reader) Stream() *stream.Stream { return r.log.of }

// load reads the events that the client has missed from the store, and finds out
// whether they are all there.
func (r *Reader) load(ctx context.Context) error {
	if r.log.of.Log() == nil {
		return ErrEventUnknown // the store has failed meanwhile
	}
	have, over := r.log.end()
	stored, all := r.log.stored, r.log.logs.events
	if stored && r.log.elsewhere() {
		return r.loadElsewhere(ctx)
	}
	if stored || r.seq <= have {
		all.fetched(r.log.key, r.seq) // the client has them, whatever the write said
	}
	switch {
	case !stored && r.seq > have && all.store.Shares():
		return r.loadAhead(ctx)
	case !stored && r.seq > have, !stored && r.seq == have && over:
		return ErrEventUnknown
	case !stored && r.seq == have:
		return nil
	}
	events, err := all.after(ctx, r.log.key, r.seq)
	if err != nil {
		return err
	}
	if missing := gap(events, r.seq); missing > 0 {
		all.missing(r.log.key, missing)
		return ErrEventUnknown
	}
	last := events[len(events)-1]
	switch {
	case !stored && last.Seq < have, stored && !last.Last:
		all.missing(r.log.key, last.Seq+1)
		return ErrEventUnknown
	case stored && !slices.ContainsFunc(events, func(e store.Event) bool { return len(e.Data) > 0 }):
		return ErrEventUnknown // or the client would come again and again
	}
	r.events, r.end = events, last.Seq
	return nil
}

// loadAhead is load for a client that has an event of which this process does not know yet that the store has it:
// another replica has read it there. The exchange becomes the writer when the append has returned.
func (r *Reader) loadAhead(ctx context.Context) error {
	events, err := r.log.logs.events.after(ctx, r.log.key, r.seq-1)
	switch {
	case err != nil:
		return err
	case len(events) == 0 || events[0].Seq != r.seq || events[0].Last:
		return ErrEventUnknown
	}
	return nil
}

// gap returns the number of the first event that is missing: the first one of events should follow
// seq, and each other one the one before it. It returns 0 if there are events, and none is missing.
func gap(events []store.Event, seq uint64) (missing uint64) {
	for _, e := range events {
		if seq++; e.Seq != seq {
			return seq
		}
	}
	if len(events) == 0 {
		return seq + 1
	}
	return 0
}

// Pump writes what the client has missed to sink, and then goes on like [stream.Stream.Pump].
// Nothing is lost, repeated or out of order between the two, or Pump ends with an error.
func (r *Reader) Pump(sink stream.Sink) error {
	err := r.Exchange.Pump(sink, func() error { return r.replay(sink) })
	r.done = err == nil
	return err
}

// Close is the end of the exchange.
func (r *Reader) Close() {
	if !r.done {
		r.Lost()
	}
	if r.follow != nil {
		r.log.logs.leave(r.follow)
	}
	if r.Closed != nil {
		r.Closed()
	}
}

// replay writes the events that follow the client's last one. The exchange is the
// stream's writer, so that the log does not grow meanwhile.
func (r *Reader) replay(sink stream.Sink) error {
	if r.log.marks {
		// Some clients know only the ids of their last connection.
		mark := &stream.Message{Kind: stream.Mark, EventID: r.log.ID(r.seq)}
		if err := r.Replay(sink, []*stream.Message{mark}); err != nil {
			return err
		}
	}
	for r.seq < r.target() {
		if len(r.events) == 0 {
			if err := r.more(); err != nil {
				return err
			}
		}
		if err := r.write(sink, r.events); err != nil {
			return err
		}
		r.events = nil
	}
	if r.follow != nil {
		return r.followOn(sink)
	}
	return nil
}

// more reads the events that have come since the first look.
func (r *Reader) more() (err error) {
	r.events, err = r.log.logs.events.after(context.Background(), r.log.key, r.seq)
	if missing := gap(r.events, r.seq); err == nil && missing > 0 {
		r.log.logs.events.missing(r.log.key, missing)
		err = errors.New("the next event is gone")
	}
	if err != nil {
		r.log.logs.host.Logger.Debug("stream.gap", append(r.log.LogAttrs(), "error", err)...)
		err = ErrEventsMissing
	}
	return err
}

// target is the last event that was there when the exchange became the writer. A stream
// that is only read again gets none any more.
func (r *Reader) target() uint64 {
	if r.log.stored {
		return r.end
	}
	seq, _ := r.log.end()
	return seq
}

// answers reports whether an event may have an answer, of which its writer keeps count.
func answers(e store.Event) bool {
	return len(e.Data) > 0 && !bytes.HasPrefix(e.Data, notification)
}

// notification is how the frames of notifications begin.
var notification = []byte(`{"jsonrpc":"2.0","method":`)

// write writes and flushes events. Those without data are for the log alone.
func (r *Reader) write(sink stream.Sink, events []store.Event) error {
	messages := make([]*stream.Message, 0, len(events))
	for _, e := range events {
		if len(e.Data) > 0 {
			messages = append(messages, &stream.Message{Kind: stream.Notification, Frame: e.Data, EventID: r.log.ID(e.Seq)})
		}
	}
	last := events[len(events)-1].Seq
	r.log.logs.events.written(r.log.key, last)
	if err := r.Replay(sink, messages); err != nil {
		return err
	}
	r.seq = last
	r.log.logs.events.fetched(r.log.key, last)
	if slices.ContainsFunc(events, answers) {
		r.log.logs.tellFetched(r.log.key, last)
	}
	return nil
}
