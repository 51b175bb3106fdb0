package server_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vitrine-mcp/vitrine/store"
)

// A modelFault is what is wrong between a replica and the store.
type modelFault int32

const (
	noFault    modelFault = iota
	refuses               // each operation fails
	hangs                 // no operation returns before its deadline, and none has an effect
	unanswered            // operations have an effect, and no answer
)

func (f modelFault) String() string {
	return [...]string{"none", "operations fail", "operations hang", "operations are not answered"}[f]
}

// A modelPort is one replica's way to the store.
type modelPort struct {
	world *modelWorld
	name  string
	// operations counts what the replica has asked the store.
	operations atomic.Int64

	mu    sync.Mutex // guards the rest
	fault modelFault
	deaf  bool     // it hears no signals, and nothing else is wrong
	gaps  []func() // tell the listeners that they may have missed something
}

func (p *modelPort) state() (modelFault, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fault, p.deaf
}

// set changes the fault. When signals are heard again, the listeners are told.
func (p *modelPort) set(fault modelFault, deaf bool) {
	p.mu.Lock()
	before := p.fault != noFault || p.deaf
	p.fault, p.deaf = fault, deaf
	gaps := slices.Clone(p.gaps)
	p.mu.Unlock()
	if before && fault == noFault && !deaf {
		for _, missed := range gaps {
			missed()
		}
	}
}

var errRefused = errors.New("connection refused")

// do does an operation as the fault has it.
func (p *modelPort) do(ctx context.Context, effect func() error) error {
	p.operations.Add(1)
	switch fault, _ := p.state(); fault {
	case refuses:
		return errRefused
	case hangs:
		<-ctx.Done()
		return ctx.Err()
	case unanswered:
		_ = effect()
		<-ctx.Done()
		return ctx.Err()
	}
	return effect()
}

func (p *modelPort) Get(ctx context.Context, key string) (value []byte, err error) {
	err = p.do(ctx, func() (err error) {
		value, err = p.world.store.Get(ctx, key)
		return err
	})
	return value, err
}

func (p *modelPort) Claim(ctx context.Context, key string, value []byte, life time.Duration) (claimed bool, err error) {
	err = p.do(ctx, func() (err error) {
		claimed, err = p.world.store.Claim(ctx, key, value, life)
		return err
	})
	return claimed, err
}

func (p *modelPort) Update(ctx context.Context, key string, change func([]byte) ([]byte, time.Duration, error)) error {
	if strings.HasPrefix(key, "session/") {
		// A server holds a mutex of the session meanwhile. The time of a bubble stands still while a goroutine waits for a
		// mutex, so that this operation does not wait for its deadline.
		over, cancel := context.WithCancel(ctx)
		cancel()
		ctx = over
	}
	return p.do(ctx, func() error { return p.world.store.Update(ctx, key, change) })
}

func (p *modelPort) Publish(ctx context.Context, channel string, message []byte) error {
	return p.do(ctx, func() error { return p.world.store.Publish(ctx, channel, message) })
}

func (p *modelPort) Listen(ctx context.Context, channels []string, receive func(string, []byte), missed func()) error {
	return p.do(ctx, func() error {
		p.mu.Lock()
		p.gaps = append(p.gaps, missed)
		p.mu.Unlock()
		return p.world.store.Listen(ctx, channels, func(channel string, message []byte) {
			if fault, deaf := p.state(); fault == noFault && !deaf {
				receive(channel, message)
			}
		}, missed)
	})
}

// Append also checks that the store accepts the events of a stream in their order, from any writer.
func (p *modelPort) Append(ctx context.Context, session string, e store.Event, b store.EventBounds) (out []store.EvictedEvent, err error) {
	err = p.do(ctx, func() (err error) {
		p.world.mu.Lock()
		defer p.world.mu.Unlock()
		if out, err = p.world.store.Append(ctx, session, e, b); err == nil {
			if last := p.world.logged[e.Stream]; e.Seq != last+1 {
				p.world.broken = append(p.world.broken, fmt.Sprintf("%s appends event %d of stream %s after event %d", p.name, e.Seq, e.Stream, last))
			}
			p.world.logged[e.Stream] = e.Seq
		}
		return err
	})
	return out, err
}

func (p *modelPort) After(ctx context.Context, session, stream string, seq uint64) (all []store.Event, err error) {
	err = p.do(ctx, func() (err error) {
		all, err = p.world.store.After(ctx, session, stream, seq)
		return err
	})
	return all, err
}

func (p *modelPort) Delete(ctx context.Context, session string) error {
	return p.do(ctx, func() error { return p.world.store.Delete(ctx, session) })
}
