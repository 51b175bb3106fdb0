package ask

import (
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/share"
)

// A checkedAnswer is the answer to one question that was checked last, so that it is decoded once. For a task several may
// come at the same time, also after the one that the handler gets.
type checkedAnswer[T any] struct {
	mu     sync.Mutex // guards the rest
	raw    jsontext.Value
	answer T
	held   *share.Held // what the answer is charged, or nil
	taken  bool
}

// keep replaces the answer.
func (c *checkedAnswer[T]) keep(raw jsontext.Value, answer T, held *share.Held) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.taken {
		held.Release()
		return
	}
	c.held.Release()
	c.raw, c.answer, c.held = raw, answer, held
}

// take returns the answer, what it is charged, and whether it is that of raw. No answer is kept from then on.
func (c *checkedAnswer[T]) take(raw jsontext.Value) (answer T, held *share.Held, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.taken = true
	return c.answer, c.held, len(raw) > 0 && len(raw) == len(c.raw) && &raw[0] == &c.raw[0]
}
