package audit

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
	"unicode/utf8"
)

// A Config is what a [Log] is made of. Fields that are zero stand for their defaults.
type Config struct {
	// Sinks are where records go, at least one. Each has a queue, a chain and a writer of its own, so
	// that one that hangs does not delay another. Their names must differ.
	Sinks []Sink
	// Key is the secret of the digests and of the chain, at least [MinKeyBytes] random bytes. Without
	// one there is no chain, and digests can only be compared with each other while the process runs.
	Key []byte
	// Strict admits no call without a place for its record: if a queue is full, the call is refused
	// with the status 503 and the reason "audit". The default is to count records that are lost.
	Strict bool
	// Redact returns what a record keeps of the arguments. The default keeps their digest only.
	Redact Redactor
	// MaxArgumentBytes bounds what Redact may keep (default 2 KiB).
	MaxArgumentBytes int
	// MaxRecords and MaxBytes bound the queue of each sink, and MaxRefusals those that count refusals
	// of unknown callers (defaults: 32768 records, 32 MiB, 4096 records). In a strict log the records of
	// the calls that it has let pass have room beyond MaxBytes.
	MaxRecords, MaxBytes, MaxRefusals int
	// HeadInterval is how often the head of each chain is published in the log (default 1 minute).
	HeadInterval time.Duration
	// Logger gets the heads, and the faults of sinks. The default discards them.
	Logger *slog.Logger
}

// DefaultRecords is the default of [Config].MaxRecords.
const DefaultRecords = 32 << 10

// withDefaults returns the configuration with its defaults.
func (c Config) withDefaults() Config {
	for field, value := range map[*int]int{
		&c.MaxArgumentBytes: 2 << 10, &c.MaxRecords: DefaultRecords, &c.MaxBytes: 32 << 20, &c.MaxRefusals: 4 << 10,
	} {
		if *field == 0 {
			*field = value
		}
	}
	if c.HeadInterval == 0 {
		c.HeadInterval = time.Minute
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// check returns what is wrong with the configuration.
func (c *Config) check() error {
	names := map[string]bool{}
	for _, s := range c.Sinks {
		if s == nil {
			return errors.New("audit: a sink is nil")
		}
		if names[s.Name()] {
			return fmt.Errorf("audit: two sinks are called %q", s.Name())
		}
		if !utf8.ValidString(s.Name()) {
			return fmt.Errorf("audit: the name of a sink, %q, is not UTF-8", s.Name())
		}
		names[s.Name()] = true
	}
	switch {
	case len(c.Sinks) == 0:
		return errors.New("audit: there is no sink")
	case c.MaxArgumentBytes < 0 || c.MaxRecords < 0 || c.MaxBytes < 0 || c.MaxRefusals < 0 || c.HeadInterval < 0:
		return errors.New("audit: bounds and intervals must not be negative")
	case c.Key != nil:
		return checkKey(c.Key)
	}
	return nil
}

// A Log takes records and writes them to its sinks. No method waits for a sink, except Close. A nil
// Log takes nothing. It is safe for concurrent use.
type Log struct {
	config   Config
	logger   *slog.Logger
	digester *digester
	queues   []*queue
	refusals refusals
	giveUp   context.CancelFunc // ends the writes of the sinks

	closing sync.Once
	closed  error
}

// New returns a log. Its goroutines end with [Log.Close].
func New(c Config) (*Log, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	key := c.Key
	if key == nil {
		key = make([]byte, MinKeyBytes)
		_, _ = rand.Read(key) // never fails
	}
	ctx, giveUp := context.WithCancel(context.Background())
	l := &Log{config: c, logger: c.Logger, digester: newDigester(key), giveUp: giveUp}
	l.refusals.full = l.addRefusals
	for _, s := range c.Sinks {
		q, err := newQueue(l, s)
		if err != nil {
			giveUp()
			return nil, err
		}
		l.queues = append(l.queues, q)
	}
	for _, q := range l.queues {
		go q.run(ctx)
	}
	return l, nil
}

// Strict reports whether each call needs a place for its record.
func (l *Log) Strict() bool { return l != nil && l.config.Strict }

// MaxBytes returns the memory that the queues of all sinks and their writers take at most, in bytes. In a strict log the
// records of calls that it has let pass may take more.
func (l *Log) MaxBytes() int {
	if l == nil {
		return 0
	}
	return len(l.queues) * (l.config.MaxBytes + l.config.MaxRefusals*recordBytes + writerBytes + 4*l.config.MaxArgumentBytes)
}

// Reserve takes a place for a record in all queues, and reports whether there was one. The place must
// be used with [Log.AddReserved] or given back with [Log.Release].
func (l *Log) Reserve() bool {
	if l == nil {
		return true
	}
	for i, q := range l.queues {
		if !q.reserve() {
			for _, taken := range l.queues[:i] {
				taken.release()
			}
			return false
		}
	}
	return true
}

// Release gives back a place that Reserve has taken.
func (l *Log) Release() {
	if l != nil {
		for _, q := range l.queues {
			q.release()
		}
	}
}

// Add queues a record. If a queue is full, the record is lost there, and counted.
func (l *Log) Add(r Record) { l.add(&r, false) }

// AddReserved queues a record in a place that Reserve has taken.
func (l *Log) AddReserved(r Record) { l.add(&r, true) }

func (l *Log) add(r *Record, reserved bool) {
	if l == nil {
		return
	}
	l.seal(r)
	r.forgetPrincipal()
	r.cut()
	for _, q := range l.queues {
		q.add(r, reserved)
	}
}

// AddRefusal counts a refusal of a caller that is not known: by stage, reason (Record.Reason), network
// (of Record.Address) and minute. The record of the minute says how many there were. So strangers
// cannot fill the records.
func (l *Log) AddRefusal(r Record) {
	if l != nil {
		l.refusals.add(&r)
	}
}

// addRefusals queues the records of a minute of refusals.
func (l *Log) addRefusals(minute []Record) {
	for _, q := range l.queues {
		q.addRefusals(minute)
	}
}

// Close writes what is queued and closes the sinks. It returns when that is done or ctx is, and then
// with an error that says how many records were not written. What comes later is lost and counted.
// Further calls return the same error.
func (l *Log) Close(ctx context.Context) error {
	if l == nil {
		return nil
	}
	l.closing.Do(func() { l.closed = l.close(ctx) })
	return l.closed
}

func (l *Log) close(ctx context.Context) error {
	l.refusals.close()
	for _, q := range l.queues {
		q.close()
	}
	defer l.giveUp()
	var errs []error
	for _, q := range l.queues {
		select {
		case <-q.done:
		case <-ctx.Done():
			l.giveUp()
			q.awaitGivenUp()
		}
		errs = append(errs, q.closeError())
	}
	return errors.Join(errs...)
}
