package ask

import (
	"errors"
	"fmt"
	"reflect"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/share"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A NoRoomError says that there is no room for the value of an answer just now. It is no fault of the answer.
type NoRoomError struct{ Err error }

func (e NoRoomError) Error() string { return e.Err.Error() }
func (e NoRoomError) Unwrap() error { return e.Err }

// A decodeAnswer decodes an answer, and returns what its value holds until this run of the handler ends, or it is given back. With an
// error it holds nothing.
type decodeAnswer[T any] func(jsontext.Value) (answer T, held *share.Held, err error)

// askFor asks a question and decodes the answer, which counts until this run of the handler ends. An answer that cannot be decoded, or
// takes too much memory, is asked for again.
func askFor[T any](d *Dialog, key string, need mcp.ClientCapabilities, q Question, decode decodeAnswer[T]) (answer T, err error) {
	var none T
	checked := checkedAnswer[T]{dialog: d, decode: decode}
	q.Check = checked.check
	raw, err := d.Ask(key, need, q)
	answer, known := checked.take(raw)
	switch {
	case err != nil:
		return none, err
	case known:
		return answer, nil
	}
	answer, _, err = decode(raw) // a middleware has replaced it
	if err != nil {
		if noRoom, ok := errors.AsType[NoRoomError](err); ok {
			return none, noRoom.Err
		}
		return none, fmt.Errorf("server: question %q: %w", key, err)
	}
	return answer, nil
}

// weighed calls decode if there is room for a value of a type that is decoded from a text, and returns what the value holds until this
// run of the handler ends, or it is given back.
func (d *Dialog) weighed(t reflect.Type, text jsontext.Value, decode func() error) (held *share.Held, err error) {
	takes, err := d.Asker.valid.Weigh(t, text, d.heldBytes())
	if err != nil {
		return nil, err
	}
	if held, err = d.Core.HoldAnswer(takes); err != nil {
		if _, never := d.Asker.valid.Weigh(t, text, d.heldBytes()); never != nil {
			return nil, never // another answer has come first
		}
		return nil, NoRoomError{err}
	}
	d.Hold(held)
	decoded := false
	defer func() {
		if !decoded { // it may have panicked
			d.giveBack(held)
		}
	}()
	if err := decode(); err != nil {
		return nil, err
	}
	decoded = true
	return held, nil
}

// A checkedAnswer keeps the answer that was checked last, so that it need not be decoded again. It is safe for concurrent use: of a
// task several answers to one question may be checked at the same time.
type checkedAnswer[T any] struct {
	dialog *Dialog
	decode decodeAnswer[T]

	mu     sync.Mutex // guards the rest
	taken  bool       // the handler has an answer, or needs none
	raw    jsontext.Value
	answer T
	held   *share.Held
}

// check decodes an answer. What the value of one that is kept holds, it holds until this run of the handler ends, or another answer
// is kept.
func (c *checkedAnswer[T]) check(raw jsontext.Value, keep bool) error {
	if keep {
		c.drop()
	}
	answer, held, err := c.decode(raw)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !keep || c.taken || c.raw != nil {
		c.dialog.giveBack(held)
		return nil
	}
	c.raw, c.answer, c.held = raw, answer, held
	return nil
}

// drop gives the answer back that is kept, unless the handler has it.
func (c *checkedAnswer[T]) drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.taken {
		return
	}
	var none T
	c.dialog.giveBack(c.held)
	c.raw, c.answer, c.held = nil, none, nil
}

// take returns the answer, and whether it was decoded from that text, and not from an equal one. Nothing is kept any more.
func (c *checkedAnswer[T]) take(raw jsontext.Value) (answer T, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.taken = true
	if known = len(raw) > 0 && len(raw) == len(c.raw) && &raw[0] == &c.raw[0]; known {
		return c.answer, true
	}
	c.dialog.giveBack(c.held)
	c.raw, c.held = nil, nil
	var none T
	c.answer = none
	return none, false
}
