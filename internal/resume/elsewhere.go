package resume

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/vitrine-mcp/vitrine/internal/stream"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/store"
)

// loadElsewhere is load for a stream that another replica writes. If it has not ended, the reader follows
// it. The writer says whether it goes on. One that does not answer may be dead: then the reader finds out
// later.
func (r *Reader) loadElsewhere(ctx context.Context) error {
	complete, err := r.lookElsewhere(ctx)
	if err != nil || complete {
		return err
	}
	r.follow = r.log.logs.follow(r.log.key)
	timer := time.NewTimer(firstHearing)
	defer timer.Stop()
	select {
	case <-r.follow.news:
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	_, told, ended := r.follow.state()
	if ended == "" && told <= r.end {
		return nil
	}
	if complete, err = r.lookElsewhere(ctx); err == nil && !complete && (ended != "" || told > r.end) {
		err = ErrEventUnknown // its writer has given it up, or the store has lost what the writer has told of
	}
	return err
}

// lookElsewhere reads what follows the client's last event, and reports whether the stream is complete. The
// store must have that event, or the next one.
func (r *Reader) lookElsewhere(ctx context.Context) (complete bool, err error) {
	events, err := r.log.logs.events.after(ctx, r.log.key, max(r.seq, 1)-1)
	switch {
	case err != nil:
		return false, err
	case len(events) == 0:
		return false, ErrEventUnknown
	}
	last := events[len(events)-1]
	if events[0].Seq == r.seq {
		events = events[1:]
	}
	said := false
	for _, e := range events {
		said = said || len(e.Data) > 0
	}
	if len(events) > 0 && gap(events, r.seq) > 0 || last.Last && !said {
		return false, ErrEventUnknown
	}
	r.events, r.end = events, last.Seq
	return last.Last, nil
}

// errDraining ends an exchange that reads a stream of another replica: its client comes back elsewhere.
var errDraining = errors.New("session: the server shuts down")

// followOn writes the events of a stream as they come, until the last one. The writer tells of them. A reader
// that hears nothing looks for itself, and ends the stream of a writer that is dead.
func (r *Reader) followOn(sink stream.Sink) error {
	silent, next := 0, hearAgain()
	for {
		_, seq, ended := r.follow.state()
		if seq > r.seq || ended != "" || silent > 0 {
			over, err := r.look(sink, seq)
			switch {
			case over:
				return err
			case err != nil:
				silent = 0 // the store is away, and with it the signals
			case ended == Taken:
				return ErrStreamTaken
			case ended != "":
				return ErrEventsMissing
			case silent > maxSilent:
				silent = 0
				r.endInPlace()
				continue
			}
		}
		if err := r.Await(sink, r.follow.news, r.Draining, next); err != nil {
			return err
		}
		if r.drains() {
			return errDraining
		}
		if time.Now().Before(next) {
			continue
		}
		if heard, _, _ := r.follow.state(); heard {
			silent = 0
		} else {
			silent++
		}
		next = hearAgain()
		r.log.logs.ask(r.follow)
	}
}

// look writes what is new in the store, and reports whether the exchange is over: the stream is complete, or
// cannot go on, because the store has lost an event up to the one with the number told. Otherwise an error is the
// store's.
func (r *Reader) look(sink stream.Sink, told uint64) (over bool, err error) {
	events, err := r.log.logs.events.after(context.Background(), r.log.key, r.seq)
	switch {
	case err != nil:
		return false, err
	case len(events) == 0 && told <= r.seq:
		return false, nil
	case gap(events, r.seq) > 0:
		return true, ErrEventsMissing
	}
	if err := r.write(sink, events); err != nil {
		return true, err
	}
	return events[len(events)-1].Last, nil
}

const (
	// firstHearing is how long a reader waits before it answers its client until the writer says whether
	// the stream goes on.
	firstHearing = time.Second
	// hearing is about how often a reader asks the writer, and the store if that does not answer.
	hearing = 5 * time.Second
	// maxSilent is how often in a row the writer may not answer, although the store does, before it counts
	// as dead.
	maxSilent = 5
)

// hearAgain returns when the writer is asked again.
func hearAgain() time.Time {
	var random [8]byte
	_, _ = rand.Read(random[:]) // it never fails
	return time.Now().Add(hearing*4/5 + time.Duration(binary.LittleEndian.Uint64(random[:])%uint64(hearing*2/5)))
}

// drains reports whether the server shuts down.
func (r *Reader) drains() bool {
	select {
	case <-r.Draining:
		return true
	default:
		return false
	}
}

// endInPlace ends a stream whose writer is dead, with an error for the request that it should have answered.
// If the writer lives after all, the store refuses this end or what the writer appends next. The next look
// finds what there is.
func (r *Reader) endInPlace() {
	ctx, all := context.Background(), r.log.logs.events
	first, err := all.after(ctx, r.log.key, 0)
	if err != nil {
		return
	}
	ev := store.Event{Stream: r.log.key, Seq: r.seq + 1, Last: true}
	if len(first) > 0 && first[0].Seq == 1 && len(first[0].Note) > 0 {
		raw, text := string(first[0].Note), ""
		if raw[0] == '"' {
			_ = json.Unmarshal(first[0].Note, &text) // it was an id
		}
		if id, err := mcp.ParseID(raw, text); err == nil {
			ev.Data = wire.AppendError(nil, id, errReplicaLost())
		}
	}
	switch err := all.append(ev); {
	case err == nil:
		r.log.logs.host.Logger.Warn("stream.replica_lost", append(r.log.LogAttrs(), "replica", r.follow.writer)...)
		r.follow.hear(Signal{Kind: Grown, Seq: ev.Seq})
	case len(first) == 0 || errors.Is(err, errEnded):
		r.follow.hear(Signal{Kind: Gone})
	case errors.Is(err, store.ErrEventFenced):
		r.follow.hear(Signal{Kind: Grown, Seq: ev.Seq})
	}
}

// errReplicaLost is the answer to a request whose replica has died.
func errReplicaLost() *mcp.Error {
	return mcp.NewError(mcp.CodeInternalError, "the server that ran this request is gone").
		WithData(mcp.ErrorData{Reason: string(mcp.CauseReplicaLost)})
}

// elsewhere reports whether another replica writes the stream.
func (l *Log) elsewhere() bool {
	shared := l.logs.events.store.shared()
	if shared == nil {
		return false
	}
	writer, _ := writerOf(l.key)
	return writer != shared.replica
}
