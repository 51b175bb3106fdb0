package replica

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/resume"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/share"
	"github.com/vitrine-mcp/vitrine/store"
)

// This file is about signals for one replica that must not be lost. Their sender wants a receipt: a store says that it
// has passed them on also if the connection of the listener is gone, and it does not know yet.

// isConfirmed reports whether a signal is published again until its replica has got it. The client of an answer has been
// told that it is taken, and does not send it again. Nothing but the signal Fetched tells a replica that its stored answer
// was fetched. A second one of either is ignored.
func isConfirmed(m session.Signal) bool {
	return m.Answer != nil || m.Stream != nil && m.Stream.Kind == resume.Fetched
}

const (
	// repeatTime is how long a signal is published again. A replica that was cut off from the store asks it again longestPause
	// after that at most, so that an outage of twice as long loses nothing.
	repeatTime = 3 * longestPause
	// firstRepeat and longestRepeat bound the pauses, which double.
	firstRepeat, longestRepeat = 100 * time.Millisecond, 2 * time.Second
	// repeatShare is the part of max_pending_signals that may wait to be published again, one of so many: clients can make
	// up the names of replicas, to which nobody listens.
	repeatShare = 4
	// receiptTime is how long a receipt may take. Then the signal is published again.
	receiptTime = 500 * time.Millisecond
	// maxReceipts bounds the receipts that wait to be sent. The senders of others publish their signals again.
	maxReceipts = 1024
)

var errNoReceipt = fmt.Errorf("no receipt has come: %w", store.ErrNoReceiver)

// receipts are those that this replica waits for, and those that it owes.
type receipts struct {
	mu      sync.Mutex               // guards the rest
	awaited map[string]chan struct{} // by name; closed when it has come
	owed    map[string][]string      // by replica
	waiting int                      // of these
	busy    bool                     // somebody sends them
}

// await returns the name of a new receipt, and what is closed when it has come. The caller must forget it.
func (r *receipts) await() (name string, come <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.awaited == nil {
		r.awaited = map[string]chan struct{}{}
	}
	name = rand.Text()[:16]
	c := make(chan struct{})
	r.awaited[name] = c
	return name, c
}

func (r *receipts) forget(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.awaited, name)
}

// arrived notes that receipts have come.
func (r *receipts) arrived(names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range names {
		if c := r.awaited[name]; c != nil {
			close(c)
			delete(r.awaited, name)
		}
	}
}

// owe adds a receipt for a replica, and reports whether the caller must send what is owed.
func (r *receipts) owe(replica, name string) (first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting == maxReceipts {
		return false
	}
	if r.owed == nil {
		r.owed = map[string][]string{}
	}
	r.owed[replica] = append(r.owed[replica], name)
	r.waiting++
	first = !r.busy
	r.busy = true
	return first
}

// take returns all that is owed; nil if that is nothing, and then somebody else may send it.
func (r *receipts) take() (owed map[string][]string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	owed, r.owed, r.waiting = r.owed, nil, 0
	r.busy = owed != nil
	return owed
}

// acknowledge sends a receipt to a replica. It does not wait.
func (l *Link) acknowledge(replica, name string) {
	if !l.receipts.owe(replica, name) {
		return
	}
	l.start(func() {
		for owed := l.receipts.take(); owed != nil; owed = l.receipts.take() {
			for to, names := range owed {
				if message, err := l.seal(envelope{Receipts: names}); err == nil {
					_ = l.try(context.WithoutCancel(l.done), replicaChannel+to, message) // the sender publishes its signal again
				}
			}
		}
	})
}

// sendConfirmed publishes a signal for one replica. If no receipt comes soon it goes on with that, with a place of its own.
func (l *Link) sendConfirmed(caller share.Key, m session.Signal) {
	channel := channelOf(m)
	name, come := l.receipts.await()
	message, err := l.seal(envelope{Signal: &m, Receipt: name})
	if err != nil {
		l.receipts.forget(name)
		_ = l.counted(channel, err)
		return
	}
	err = l.try(context.WithoutCancel(l.done), channel, message)
	if err == nil && (l.hasCome(come, receiptTime) || l.done.Err() != nil) { // at the end nobody can wait for it
		l.receipts.forget(name)
		_ = l.counted(channel, nil)
		return
	}
	launched := l.launch(l.repeats, caller, sizeOf(m), func() {
		defer l.receipts.forget(name)
		_ = l.counted(channel, l.repeat(channel, message, come)) // nobody waits for it
	})
	if !launched {
		l.receipts.forget(name)
	}
}

// hasCome waits for a receipt, until a time is over or the link is closed.
func (l *Link) hasCome(come <-chan struct{}, within time.Duration) bool {
	select {
	case <-come:
		return true
	case <-time.After(within):
	case <-l.done.Done():
	}
	select {
	case <-come:
		return true
	default:
		return false
	}
}

// repeat publishes a message again and again until its receipt comes, its time is over, or the link is closed, and then
// once more.
func (l *Link) repeat(channel string, message []byte, come <-chan struct{}) error {
	for ends, pause := time.Now().Add(repeatTime), firstRepeat; ; pause = min(2*pause, longestRepeat) {
		if l.hasCome(come, pause) {
			return nil
		}
		closed := l.done.Err() != nil
		last := closed || time.Now().After(ends)
		err := l.try(context.WithoutCancel(l.done), channel, message)
		switch {
		case !last:
		case err != nil || closed: // nobody can wait for a receipt of what is sent at the end
			return err
		case l.hasCome(come, receiptTime):
			return nil
		default:
			return errNoReceipt
		}
	}
}
