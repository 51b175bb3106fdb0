package transporttest

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/vitrine-mcp/vitrine/transport"
)

// limit is the largest frame in bytes that the checks allow, unless they say otherwise.
const limit = 4 << 20

// frame returns the JSON-RPC notification number n with about size bytes.
func frame(n, size int) []byte {
	f := fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/test","params":{"n":%d,"text":"`, n)
	fill := max(size-len(f)-len(`"}}`), 0)
	return append(f, strings.Repeat("ä", fill/len("ä"))+`"}}`...)
}

// send writes a frame and flushes.
func send(c transport.Conn, f []byte) error {
	if err := c.WriteFrame(f); err != nil {
		return err
	}
	if flusher, ok := c.(transport.Flusher); ok {
		return flusher.Flush()
	}
	return nil
}

// expect reads a frame and compares it.
func expect(c transport.Conn, want []byte, whose string) error {
	return within("ReadFrame of "+whose, func() error {
		got, err := c.ReadFrame(limit)
		if err != nil {
			return fmt.Errorf("ReadFrame of %s: %w", whose, err)
		}
		if !bytes.Equal(got, want) {
			return fmt.Errorf("%s has read %s, want %s", whose, shorten(got), shorten(want))
		}
		return nil
	})
}

// shorten returns a frame as an error shows it.
func shorten(f []byte) string {
	const most = 100
	if len(f) <= most {
		return fmt.Sprintf("%q", f)
	}
	return fmt.Sprintf("%q... (%d bytes)", f[:most], len(f))
}

// sendAll sends frames on a goroutine of its own. The error comes over the channel.
func sendAll(c transport.Conn, frames ...[]byte) <-chan error {
	sent := make(chan error, 1)
	go func() {
		for _, f := range frames {
			if err := send(c, f); err != nil {
				sent <- fmt.Errorf("WriteFrame of %d bytes: %w", len(f), err)
				return
			}
		}
		sent <- nil
	}()
	return sent
}

// expectAll reads frames and compares them.
func expectAll(c transport.Conn, frames [][]byte, whose string) error {
	for _, f := range frames {
		if err := expect(c, f, whose); err != nil {
			return err
		}
	}
	return nil
}

// carry sends frames from one end and expects them at the other one.
func carry(from, to transport.Conn, reader string, frames [][]byte) error {
	sent := sendAll(from, frames...)
	if err := expectAll(to, frames, reader); err != nil {
		return err
	}
	return await("WriteFrame", sent)
}

const (
	us   = "the connection"
	them = "its peer"
)

// someFrames returns frames that must come whole and in order.
func someFrames() (frames [][]byte) {
	frames = append(frames, []byte(`{}`))
	for n, size := range []int{0, 100, 125, 126, 4 << 10, 32<<10 - 1, 32 << 10, 32<<10 + 1, 64 << 10, 100, 200 << 10, 100} {
		frames = append(frames, frame(n, size))
	}
	return append(frames, []byte(`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`))
}

func framesFromThePeer(ours transport.Conn, peer Peer) error {
	return carry(peer.Conn, ours, us, someFrames())
}

func framesToThePeer(ours transport.Conn, peer Peer) error {
	return carry(ours, peer.Conn, them, someFrames())
}

func framesInParts(ours transport.Conn, peer Peer) error {
	parts, ok := ours.(transport.PartsWriter)
	if !ok {
		return fmt.Errorf("%w: the connection is no transport.PartsWriter", errNotThere)
	}
	for _, f := range [][]byte{frame(1, 100), frame(2, 100<<10)} {
		for _, cut := range []int{1, len(f) / 2, len(f) - 1} {
			sent := make(chan error, 1)
			go func() {
				err := parts.WriteParts(f[:cut:cut], f[cut:])
				if flusher, ok := ours.(transport.Flusher); ok && err == nil {
					err = flusher.Flush()
				}
				sent <- err
			}()
			if err := errors.Join(expect(peer.Conn, f, them), await("WriteParts", sent)); err != nil {
				return err
			}
		}
	}
	return nil
}

// memoryOfFrames checks that a frame that was read does not change, and that the caller may
// change a frame that was written.
func memoryOfFrames(ours transport.Conn, peer Peer) error {
	want := [][]byte{frame(1, 1000), frame(2, 1000), frame(3, 1000)}
	sent := make(chan error, 1)
	go func() {
		mine := make([]byte, 0, 2000)
		for _, f := range want {
			mine = append(mine[:0], f...)
			if err := send(ours, mine); err != nil {
				sent <- err
				return
			}
			for i := range mine {
				mine[i] = '!'
			}
		}
		sent <- nil
	}()
	if err := expectAll(peer.Conn, want, them); err != nil {
		return fmt.Errorf("WriteFrame has kept the memory of a frame: %w", err)
	}
	if err := await("WriteFrame", sent); err != nil {
		return err
	}
	peerSent := sendAll(peer.Conn, want...)
	var got [][]byte
	for range want {
		err := within("ReadFrame", func() error {
			f, err := ours.ReadFrame(limit)
			got = append(got, f)
			return err
		})
		if err != nil {
			return err
		}
	}
	for i, f := range got {
		if !bytes.Equal(f, want[i]) {
			return fmt.Errorf("ReadFrame has changed a frame that it had returned before: it is %s, and was %s", shorten(f), shorten(want[i]))
		}
	}
	return await("WriteFrame", peerSent)
}

func largeFrames(ours transport.Conn, peer Peer) error {
	large := [][]byte{frame(1, 1<<20), frame(2, 100), frame(3, 3<<20)}
	if err := carry(peer.Conn, ours, us, large); err != nil {
		return err
	}
	return carry(ours, peer.Conn, them, large)
}

// framesAboveTheLimit checks that a frame that is too large is not delivered, and that the next
// one is, unless the connection fails.
func framesAboveTheLimit(ours transport.Conn, peer Peer) error {
	const small = 64 << 10
	next := frame(2, 100)
	sent := make(chan error, 1)
	go func() { sent <- errors.Join(send(peer.Conn, frame(1, 1<<20)), send(peer.Conn, next)) }()
	return within("ReadFrame", func() error {
		f, err := ours.ReadFrame(small)
		switch {
		case err == nil:
			return fmt.Errorf("ReadFrame(%d) has returned a frame of %d bytes", small, len(f))
		case !errors.Is(err, transport.ErrFrameTooLarge):
			return nil // it cannot skip, and fails
		}
		if f, err = ours.ReadFrame(small); err != nil {
			return fmt.Errorf("ReadFrame after transport.ErrFrameTooLarge: %w", err)
		}
		if !bytes.Equal(f, next) {
			return fmt.Errorf("the frame after one that was too large is %s, want %s", shorten(f), shorten(next))
		}
		return await("WriteFrame of the peer", sent)
	})
}
