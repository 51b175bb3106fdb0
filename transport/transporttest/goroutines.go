package transporttest

import (
	"errors"
	"fmt"
	"runtime"
	"time"
	"unicode"

	"github.com/vitrine-mcp/vitrine/transport"
)

// readAndWriteAtTheSameTime checks that reading and writing do not wait for each other, and that
// deadlines can be set at the same time.
func readAndWriteAtTheSameTime(ours transport.Conn, peer Peer) error {
	var frames [][]byte
	for n := range 200 {
		frames = append(frames, frame(n, n*100))
	}
	waiting := make(chan error, 1)
	go func() { // a reader that waits must not block a writer
		waiting <- expect(ours, frame(-1, 100), us)
	}()
	time.Sleep(pause)
	if err := carry(ours, peer.Conn, them, [][]byte{frame(-2, 100)}); err != nil {
		return fmt.Errorf("while ReadFrame waits: %w", err)
	}
	if err := within("WriteFrame of the peer", func() error { return send(peer.Conn, frame(-1, 100)) }); err != nil {
		return err
	}
	if err := await("ReadFrame", waiting); err != nil {
		return err
	}
	errs := make(chan error, 2)
	go func() { errs <- carry(peer.Conn, ours, us, frames) }()
	go func() { errs <- carry(ours, peer.Conn, them, frames) }()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
				_ = ours.SetWriteDeadline(time.Now().Add(time.Hour))
			}
		}
	}()
	var err error
	for range cap(errs) {
		if err = await("reading and writing at the same time", errs); err != nil {
			break
		}
	}
	close(stop)
	<-stopped
	return err
}

func describe(ours transport.Conn, _ Peer) error {
	d, ok := ours.(transport.Describer)
	if !ok {
		return fmt.Errorf("%w: the connection is no transport.Describer", errNotThere)
	}
	name := d.Describe().Name
	if name == "" || len(name) > 32 {
		return fmt.Errorf("the name of the transport is %q, want 1 to 32 bytes", name)
	}
	for _, c := range name {
		if !unicode.IsPrint(c) {
			return fmt.Errorf("the name of the transport %q cannot be printed", name)
		}
	}
	return nil
}

// noGoroutineIsLeft checks that a connection that is closed on both sides leaves no goroutine.
func noGoroutineIsLeft(connect func() (transport.Conn, Peer)) error {
	use := func() error {
		ours, peer := connect()
		read := make(chan error, 1)
		go func() {
			_, err := ours.ReadFrame(limit)
			if err == nil {
				_, err = ours.ReadFrame(limit)
			}
			read <- err
		}()
		err := within("WriteFrame", func() error { return send(peer.Conn, frame(1, 100)) })
		return errors.Join(err, closed(ours), closed(peer.Conn), stuck(await("ReadFrame", read)))
	}
	if err := use(); err != nil { // starts the goroutines that all connections share
		return err
	}
	const rounds = 10
	before := runtime.NumGoroutine()
	for range rounds {
		if err := use(); err != nil {
			return err
		}
	}
	left := func() int { return runtime.NumGoroutine() - before }
	for end := time.Now().Add(patience); left() >= rounds && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if n := left(); n >= rounds {
		return fmt.Errorf("%d connections have left %d goroutines behind", rounds, n)
	}
	return nil
}
