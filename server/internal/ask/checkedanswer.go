package ask

import (
	"fmt"
	"reflect"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// A NoRoomError says that there was no room for the value of an answer. It is no fault of the answer.
type NoRoomError struct{ Err error }

func (e NoRoomError) Error() string { return e.Err.Error() }
func (e NoRoomError) Unwrap() error { return e.Err }

// A decodeAnswer decodes an answer, and returns how many bytes its value takes at most.
type decodeAnswer[T any] func(jsontext.Value) (answer T, takes int, err error)

// askFor asks a question and decodes the answer, which counts until this run of the handler ends. An answer that cannot be decoded, or
// takes too much memory, is asked for again.
func askFor[T any](d *Dialog, key string, need mcp.ClientCapabilities, q Question, decode decodeAnswer[T]) (answer T, err error) {
	var none T
	checked := checkedAnswer[T]{decode: decode}
	q.Check = checked.check
	raw, err := d.Ask(key, need, q)
	if err != nil {
		return none, err
	}
	answer, takes, known := checked.of(raw)
	if !known { // a middleware has replaced it
		if answer, takes, err = decode(raw); err != nil {
			return none, fmt.Errorf("server: question %q: %w", key, err)
		}
	}
	if err := d.hold(takes); err != nil {
		return none, err
	}
	return answer, nil
}

// weighed calls decode if there is room for a value of a type that is decoded from a text, and returns how many bytes the value takes
// at most.
func (d *Dialog) weighed(t reflect.Type, text jsontext.Value, decode func() error) (takes int, err error) {
	if takes, err = d.Asker.valid.Weigh(t, text); err != nil {
		return 0, err
	}
	held, err := d.Core.HoldAnswer(takes)
	if err != nil {
		return 0, NoRoomError{err}
	}
	defer held.Release()
	return takes, decode()
}

// A checkedAnswer keeps the answer that was checked last, so that it need not be decoded again. It is safe for concurrent use: of a
// task several answers to one question may be checked at the same time.
type checkedAnswer[T any] struct {
	decode decodeAnswer[T]

	mu     sync.Mutex // guards the rest
	raw    jsontext.Value
	answer T
	takes  int
}

// check decodes an answer.
func (c *checkedAnswer[T]) check(raw jsontext.Value, keep bool) error {
	answer, takes, err := c.decode(raw)
	if err == nil && keep {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.raw, c.answer, c.takes = raw, answer, takes
	}
	return err
}

// of returns the answer and what it takes, and whether it was decoded from that text, and not from an equal one.
func (c *checkedAnswer[T]) of(raw jsontext.Value) (answer T, takes int, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.answer, c.takes, len(raw) > 0 && len(raw) == len(c.raw) && &raw[0] == &c.raw[0]
}
