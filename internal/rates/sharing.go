package rates

import (
	"context"
	"time"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// A Store has the buckets of all replicas. Its methods are safe for concurrent use.
type Store interface {
	// Take takes tokens as store.Buckets does. It returns soon, also if the store does not answer.
	Take(ctx context.Context, name string, burst int, fill time.Duration, spent, more int) (taken int, left float64, err error)
	// Run runs work, whose context ends when the server does. It returns false if the server has ended.
	Run(work func(context.Context)) bool
}

// A Sharing says how a [Limiter] shares its buckets.
type Sharing struct {
	Store Store
	// Patience is for how long a message waits for the store at most.
	Patience time.Duration
	// Failed is called when the replica begins to decide alone, and Recovered when it ends to, after so long.
	Failed    func(error)
	Recovered func(lasted time.Duration)
}

const (
	// settleAfter is when the store hears at the latest of a token that was spent.
	settleAfter = 100 * time.Millisecond
	// probeEvery is how often the store is asked while the replica decides alone.
	probeEvery = time.Second
	// maxSettling is for how many buckets the store is asked at the same time. It is less than the connections
	// that a store has, so that callers with many addresses keep nothing else from them.
	maxSettling = 8
)

// A sharing is what a limiter has of the store. It must be guarded by the lock of the limiter.
type sharing struct {
	Sharing
	local    bool      // the store has failed: the replica decides alone
	since    time.Time // when that began
	probed   time.Time // when the store was asked last meanwhile
	late     []asked   // buckets to be settled in a moment
	queue    []asked   // buckets to be settled
	settling int       // goroutines that do
}

// Share has the limiter share its buckets with other replicas. It must be called before the first message.
//
// Each replica has a bucket of its own, which the store corrects: about settleAfter after a token was spent,
// or when half of those are spent that a replica may spend ahead, it is told how many were spent and says how many are
// left. So a message waits for the store only if the replica has spent all that it may, which is none of a small
// bucket. If the store fails the replica decides alone until it answers again.
func (l *Limiter) Share(with Sharing) {
	if l != nil {
		l.sharing = &sharing{Sharing: with}
	}
}

// ask has the store asked for the buckets of a message that may spend nothing ahead, and returns them. The
// caller must hold l.mu.
func (l *Limiter) ask(all []asked) (unanswered []asked) {
	for _, a := range all {
		if a.bucket.debt.atLimit(a.rule) {
			a.bucket.debt.waiting++
			a.settled = l.settle(a)
			unanswered = append(unanswered, a)
		}
	}
	return unanswered
}

// await waits for the store, and decides about the message.
func (l *Limiter) await(m *Message, unanswered []asked) (refused *mcp.Refusal) {
	if m.Turn != nil {
		m.Turn.GiveTurn()
	}
	patience := time.NewTimer(l.sharing.Patience)
	defer patience.Stop()
	patient := true
	for unanswered != nil {
		for _, a := range unanswered {
			if !patient {
				break
			}
			select {
			case <-a.settled:
			case <-patience.C:
				patient = false
			}
		}
		l.mu.Lock()
		for _, a := range unanswered {
			a.bucket.debt.waiting--
		}
		before := unanswered
		refused, unanswered = l.decide(m, time.Now(), patient)
		for _, a := range before {
			l.settleLater(a) // what was taken for this message, and another rule has refused
		}
		l.mu.Unlock()
	}
	return refused
}

// owe notes that a token was spent. The caller must hold l.mu.
func (l *Limiter) owe(a asked) {
	d := a.bucket.debt
	if l.sharing.local {
		a.rule.local++ // the store does not hear of it
		return
	}
	if d.atLimit(a.rule) {
		a.rule.local++
	}
	if d.owed++; 2*d.owed > a.rule.ahead() && d.owed > 0 && !l.queueFull() {
		l.settle(a)
	} else {
		l.settleLater(a)
	}
}

// settleLater has the store asked in a moment. The caller must hold l.mu.
func (l *Limiter) settleLater(a asked) {
	d := a.bucket.debt
	if d.owed == 0 || d.late || d.waiting > 0 {
		return
	}
	d.late = true
	l.sharing.late = append(l.sharing.late, a)
	if len(l.sharing.late) == 1 {
		l.sharing.Store.Run(l.settleLate)
	}
}

// settleLate settles what was to be settled in a moment, or at once if the server ends.
func (l *Limiter) settleLate(ctx context.Context) {
	select {
	case <-time.After(settleAfter):
	case <-ctx.Done():
	}
	l.mu.Lock()
	settles := l.sharing.settling < maxSettling // this goroutine
	if settles {
		l.sharing.settling++
	}
	late := l.sharing.late
	l.sharing.late = nil
	for _, a := range late {
		d := a.bucket.debt
		d.late = false
		switch {
		case d.owed == 0, d.settled != nil: // what is owed after that is settled later
		case l.queueFull():
			d.owed = 0 // the store hears of no more buckets than there may be
		default:
			l.settle(a)
		}
	}
	l.mu.Unlock()
	if settles {
		l.settleAll(ctx)
	}
}

// queueFull reports whether as many buckets wait for the store as there may be. The caller must hold l.mu.
func (l *Limiter) queueFull() bool { return len(l.sharing.queue) >= l.max }

// settle has the store asked for a bucket as soon as possible. The returned channel is closed after that. The
// caller must hold l.mu.
func (l *Limiter) settle(a asked) (settled <-chan struct{}) {
	d, s := a.bucket.debt, l.sharing
	if d.settled != nil {
		return d.settled
	}
	done := make(chan struct{})
	d.settled = done
	s.queue = append(s.queue, a)
	switch {
	case s.settling >= maxSettling:
	case s.Store.Run(l.settleAll):
		s.settling++
	case s.settling == 0: // the server has ended
		s.local, s.queue, d.settled = true, nil, nil
		close(done)
	}
	return done
}

// settleAll settles the buckets in the queue, also those of a server that ends.
func (l *Limiter) settleAll(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	for {
		a, spent, more, ok := l.next()
		if !ok {
			return
		}
		b := &a.rule.buckets
		taken, left, err := l.sharing.Store.Take(ctx, a.bucket.debt.name, b.burst, b.fill, spent, more)
		l.answered(a, spent, taken, left, err)
	}
}

// next takes a bucket from the queue. If there is none, the goroutine that has asked ends.
func (l *Limiter) next() (a asked, spent, more int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.sharing
	if len(s.queue) == 0 {
		s.settling--
		return a, 0, 0, false
	}
	a = s.queue[0]
	s.queue = s.queue[1:]
	d := a.bucket.debt
	if d.name == "" {
		d.name = a.bucket.key.shared(a.rule.Name)
	}
	spent = d.owed
	d.owed = max(0, d.owed) // another replica may get what comes back
	return a, spent, d.waiting, true
}

// answered takes the answer of the store for a bucket: how many tokens were taken beside those that were spent,
// and how many are left.
func (l *Limiter) answered(a asked, spent, taken int, left float64, err error) {
	l.mu.Lock()
	now, d, s := l.tick(time.Now()), a.bucket.debt, l.sharing
	d.owed -= max(0, spent) // also if the store has not heard of them: it may have
	failed, recovered := err != nil && !s.local, err == nil && s.local
	lasted := now.Sub(s.since)
	switch {
	case failed:
		s.local, s.since, s.probed = true, now, now
	case err == nil:
		s.local = false
		d.owed -= taken
		a.rule.buckets.set(a.bucket, left-float64(d.owed), now)
	}
	close(d.settled)
	d.settled = nil
	l.settleLater(a)
	l.mu.Unlock()
	switch {
	case failed:
		s.Failed(err)
	case recovered:
		s.Recovered(lasted)
	}
}

// probe has the store asked for one of some buckets, if the replica has decided alone for a while. The caller
// must hold l.mu.
func (l *Limiter) probe(all []asked, now time.Time) {
	if !l.sharing.local || now.Sub(l.sharing.probed) < probeEvery {
		return
	}
	for _, a := range all {
		if a.bucket.debt != nil {
			l.sharing.probed = now
			l.settle(a)
			return
		}
	}
}
