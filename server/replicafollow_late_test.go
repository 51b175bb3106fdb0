package server_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/store"
)

// A late replica hears signals after a delay.
type late struct {
	store.Signals
	delay time.Duration
}

func (l late) Listen(ctx context.Context, channels []string, receive func(string, []byte), missed func()) error {
	return l.Signals.Listen(ctx, channels, func(channel string, message []byte) {
		time.AfterFunc(l.delay, func() { receive(channel, message) })
	}, missed)
}

// A client that comes back to a replica goes on there, although that only now hears that the client had gone to
// another one.
func TestReaderComesBackToALateReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, c, shared := replicas(t)
		b := newReplica(t, server.WithStore(store.Store{Values: shared, Signals: late{shared, 100 * time.Millisecond}, Events: shared}))
		defer b.Shutdown(context.Background())
		synctest.Wait()
		k := talkAt(t, a)
		k.hangUp()
		atB := k.resumes(b)
		time.Sleep(time.Second)
		leaveB := k.hangUp
		atC := k.resumes(c)
		leaveB()
		k.ends(t, atB)
		atB = k.resumes(b)
		k.ends(t, atC)
		k.says <- "at B again"
		k.expect(t, atB, "at B again")
		close(k.says)
		k.expect(t, atB, "the answer")
		k.ends(t, atB)
	})
}

// An overtaken replica says some things later than what it says after them.
type overtaken struct {
	store.Signals
	delay atomic.Int64
}

func (o *overtaken) Publish(ctx context.Context, channel string, message []byte) error {
	time.Sleep(time.Duration(o.delay.Load()))
	return o.Signals.Publish(ctx, channel, message)
}

// A client that comes back to a replica gets each event at once there, although the writer hears of its earlier
// reader later than of this one.
func TestLaterReaderIsNotOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := &sharedMemory{}
		signals := &overtaken{Signals: shared}
		a := newReplica(t, server.WithStore(shared.store()))
		b := newReplica(t, server.WithStore(store.Store{Values: shared, Signals: signals, Events: shared}))
		defer a.Shutdown(context.Background())
		defer b.Shutdown(context.Background())
		synctest.Wait()
		k := talkAt(t, a)
		k.hangUp()
		synctest.Wait()
		signals.delay.Store(int64(100 * time.Millisecond))
		k.resumes(b)
		k.hangUp()
		signals.delay.Store(0)
		synctest.Wait()
		out := k.resumes(b)
		time.Sleep(time.Second)
		begin := time.Now()
		k.says <- "live"
		k.expect(t, out, "live")
		require.Less(t, time.Since(begin), time.Second)
		close(k.says)
		k.expect(t, out, "the answer")
		k.ends(t, out)
	})
}
