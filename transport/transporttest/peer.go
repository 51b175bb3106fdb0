package transporttest

import (
	"errors"
	"fmt"
	"time"

	"github.com/vitrine-mcp/vitrine/transport"
)

// A Peer is the far end of the connection under test.
type Peer struct {
	// Conn carries the frames of the peer. Its Close is an orderly end, like that of a client
	// that has finished.
	Conn transport.Conn
	// HalfClose closes the output of the peer, which goes on reading. It is nil if the transport
	// has no half-close.
	HalfClose func() error
}

// errNotThere is wrapped by the error of a check that does not apply.
var errNotThere = errors.New("nothing to check")

// pause is the time that a check lets something block before it acts. If it is too short, the
// check still passes, but tests less.
const pause = 100 * time.Millisecond

// patience is the time that a check waits for something that must happen at once.
const patience = 10 * time.Second

// within returns the error of f, or an error that names what after the patience is over.
func within(what string, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return await(what, done)
}

func await(what string, done <-chan error) error {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return errBroken{fmt.Errorf("%s has not returned within %v", what, patience)}
	}
}

// closed closes a connection.
func closed(c transport.Conn) error {
	return within("Close", func() error {
		_ = c.Close() // Close may return an error
		return nil
	})
}

// errBroken is the error for a broken promise. Other errors may come from the connection.
type errBroken struct{ error }

// stuck returns err if it is an errBroken, and nil for errors of the connection.
func stuck(err error) error {
	if errors.As(err, new(errBroken)) {
		return err
	}
	return nil
}
