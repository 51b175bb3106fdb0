package transporttest

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/transport"
)

func halfClose(ours transport.Conn, peer Peer) error {
	if peer.HalfClose == nil {
		return fmt.Errorf("%w: the transport has no half-close", errNotThere)
	}
	sent := make(chan error, 1)
	go func() { sent <- errors.Join(send(peer.Conn, frame(1, 100)), peer.HalfClose()) }()
	if err := expect(ours, frame(1, 100), us); err != nil {
		return err
	}
	if err := await("HalfClose", sent); err != nil {
		return err
	}
	for range 2 { // it stays that way
		if err := readEnd(ours); !errors.Is(err, io.EOF) {
			return fmt.Errorf("after a half-close ReadFrame has returned %w, want io.EOF", errOf(err))
		}
	}
	if err := carry(ours, peer.Conn, them, someFrames()); err != nil {
		return fmt.Errorf("after a half-close the peer must still be sent frames: %w", err)
	}
	return nil
}

// readEnd returns the error at the end of a connection's input.
func readEnd(c transport.Conn) error {
	return within("ReadFrame", func() error {
		f, err := c.ReadFrame(limit)
		if err == nil {
			return fmt.Errorf("the frame %s that nobody has sent", shorten(f))
		}
		return err
	})
}

// errOf returns err, or an error that says that there is none.
func errOf(err error) error {
	if err == nil {
		return errors.New("no error")
	}
	return err
}

func peerCloses(ours transport.Conn, peer Peer) error {
	sent := make(chan error, 1)
	go func() {
		err := send(peer.Conn, frame(1, 100))
		_ = peer.Conn.Close()
		sent <- err
	}()
	if err := expect(ours, frame(1, 100), us); err != nil {
		return err
	}
	for range 2 {
		err := readEnd(ours)
		if !errors.Is(err, io.EOF) && !errors.Is(err, transport.ErrPeerClosed) && !errors.Is(err, transport.ErrPeerGone) {
			return fmt.Errorf("after an orderly end ReadFrame has returned %w, want io.EOF, transport.ErrPeerClosed or transport.ErrPeerGone", errOf(err))
		}
	}
	return await("Close of the peer", sent)
}

func closeWakesReadFrame(ours transport.Conn, peer Peer) error {
	done := make(chan error, 1)
	go func() {
		_, err := ours.ReadFrame(limit)
		done <- err
	}()
	time.Sleep(pause)
	if err := closed(ours); err != nil {
		return err
	}
	switch err := await("ReadFrame after Close", done); {
	case err == nil:
		return errors.New("ReadFrame has returned no error after Close")
	case errors.Is(err, transport.ErrFrameTooLarge):
		return fmt.Errorf("ReadFrame has returned %w after Close", err)
	default:
		return stuck(err)
	}
}

// mostUnread is the number of bytes that a transport may buffer for a peer that does not read.
const mostUnread = 256 << 20

// fill writes until a write blocks. The error of the blocked write comes over the channel.
func fill(c transport.Conn) (<-chan error, error) {
	done := make(chan error, 1)
	var written atomic.Int64
	f := frame(1, 1<<20)
	go func() {
		for written.Load() < mostUnread {
			if err := send(c, f); err != nil {
				done <- err
				return
			}
			written.Add(int64(len(f)))
		}
		done <- nil
	}()
	for last := int64(-1); last != written.Load(); {
		last = written.Load()
		time.Sleep(pause)
	}
	if written.Load() >= mostUnread {
		return nil, fmt.Errorf("%d MiB were written to a peer that does not read: WriteFrame must block", mostUnread>>20)
	}
	return done, nil
}

func closeWakesWriteFrame(ours transport.Conn, _ Peer) error {
	done, err := fill(ours)
	if err != nil {
		return err
	}
	if err := closed(ours); err != nil {
		return err
	}
	return classified(await("WriteFrame after Close", done), mcp.DropClosedWriter)
}

// classified checks the class of an error of a write.
func classified(err error, want mcp.DropReason) error {
	if err == nil {
		return fmt.Errorf("WriteFrame has returned no error, want one of class %s", want)
	}
	if err := stuck(err); err != nil {
		return err
	}
	switch class, known := transport.Classify(err); {
	case class != want:
		return fmt.Errorf("the class of the error of WriteFrame is %s, want %s: %w (%T)", class, want, err, err)
	case !known:
		return fmt.Errorf("transport.Classify does not know the error of WriteFrame, want one of class %s: %w (%T)", want, err, err)
	}
	return nil
}

func writeDeadline(ours transport.Conn, peer Peer) error {
	if err := ours.SetWriteDeadline(time.Now().Add(time.Hour)); err != nil {
		return fmt.Errorf("%w: the connection cannot bound its writes: %w", errNotThere, err)
	}
	if err := carry(ours, peer.Conn, them, [][]byte{frame(1, 100)}); err != nil {
		return fmt.Errorf("with a deadline in an hour: %w", err)
	}
	if err := ours.SetWriteDeadline(time.Time{}); err != nil {
		return fmt.Errorf("SetWriteDeadline with the zero time: %w", err)
	}
	if err := carry(ours, peer.Conn, them, [][]byte{frame(2, 100)}); err != nil {
		return fmt.Errorf("without a deadline: %w", err)
	}
	done, err := fill(ours)
	if err != nil {
		return err
	}
	if err := ours.SetWriteDeadline(time.Now()); err != nil {
		return fmt.Errorf("SetWriteDeadline while WriteFrame is blocked: %w", err)
	}
	return classified(await("WriteFrame with a deadline that has passed", done), mcp.DropWriteTimeout)
}

func afterClose(ours transport.Conn, peer Peer) error {
	for range 2 { // it may be called more than once
		if err := closed(ours); err != nil {
			return err
		}
	}
	if err := classified(within("WriteFrame", func() error { return send(ours, frame(1, 100)) }), mcp.DropClosedWriter); err != nil {
		return fmt.Errorf("after Close: %w", err)
	}
	err := within("ReadFrame", func() error {
		if f, err := ours.ReadFrame(limit); err == nil {
			return errBroken{fmt.Errorf("after Close ReadFrame has returned %s and no error", shorten(f))}
		}
		_, err := peer.Conn.ReadFrame(limit)
		if err == nil {
			return errBroken{errors.New("after Close the peer has read a frame that nobody has sent")}
		}
		return err
	})
	return stuck(err)
}

func writeAfterThePeerHasGone(ours transport.Conn, peer Peer) error {
	read := make(chan error, 1)
	go func() { // as a server does
		_, err := ours.ReadFrame(limit)
		read <- err
	}()
	if err := closed(peer.Conn); err != nil {
		return err
	}
	if err := stuck(await("ReadFrame after the peer has closed", read)); err != nil {
		return err
	}
	var err error
	for end := time.Now().Add(patience); err == nil && time.Now().Before(end); time.Sleep(time.Millisecond) {
		err = within("WriteFrame", func() error { return send(ours, frame(1, 100)) }) // the first ones may go into a buffer
	}
	if err := classified(err, mcp.DropBrokenPeer); err != nil {
		return fmt.Errorf("after the peer has closed: %w", err)
	}
	return nil
}
