package ask

import (
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// A checkedAnswer keeps the answer that was checked last, so that it need not be decoded again. It is safe for concurrent use: of a
// task several answers to one question may be checked at the same time.
type checkedAnswer[T any] struct {
	mu     sync.Mutex // guards the rest
	raw    jsontext.Value
	answer T
}

// keep replaces the answer.
func (c *checkedAnswer[T]) keep(raw jsontext.Value, answer T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.raw, c.answer = raw, answer
}

// of returns the answer, and whether it was decoded from that text, and not from an equal one.
func (c *checkedAnswer[T]) of(raw jsontext.Value) (answer T, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.answer, len(raw) > 0 && len(raw) == len(c.raw) && &raw[0] == &c.raw[0]
}
