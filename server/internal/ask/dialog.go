package ask

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/share"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server/internal/era"
)

// A Dialog is what one call asks its client. The source is made when the first question is
// asked, because most calls ask nothing. Its methods may be called from any goroutine.
type Dialog struct {
	Call
	// source answers the handler's questions. Nil until the first question. Guarded by mu.
	source Source
	// held is what the arguments and answers of this run of the handler take of max_argument_bytes_total, and over says that
	// the run has ended. Guarded by mu.
	held []*share.Held
	over bool
}

// A conversation is the source of a request in its own era.
type conversation interface {
	Source
	// next ends a round and sends the open questions to the client. If it returns neither a
	// result nor an error, the handler must run again.
	next(ctx context.Context) (mcp.Result, error)
	// load reads the input that came with the request, once, and returns the fault.
	load() error
	// fault returns what is wrong with the input that came with the request, or nil. The
	// request is answered with it even if the handler has succeeded.
	fault() error
}

// maxKey bounds the key of a question, in bytes.
const maxKey = 128

// Ask returns the answer to one question. It returns a [*mcp.NotDeclaredError] if the client has
// not declared what need says.
func (d *Dialog) Ask(key string, need mcp.ClientCapabilities, q Question) (jsontext.Value, error) {
	if key == "" || len(key) > maxKey {
		return nil, fmt.Errorf("server: the key of a question has 1 to %d bytes, not %d", maxKey, len(key))
	}
	if missing, lacks := era.Askable(d.Request).Lacks(need); lacks {
		return nil, fmt.Errorf("question %q: %w", key, &mcp.NotDeclaredError{Missing: missing})
	}
	return d.open().Ask(key, q)
}

// context returns the context that ends the wait for answers.
func (d *Dialog) context() context.Context { return d.open().Context() }

// open returns the source, which it makes on first use.
func (d *Dialog) open() Source {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.source == nil {
		d.source = newConversation(&d.Call)
	}
	return d.source
}

// Asked reports whether the handler has used the dialog.
func (d *Dialog) Asked() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.source != nil
}

// AnswerWith replaces the source for the questions that follow.
func (d *Dialog) AnswerWith(s Source) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.source = s
}

// Fault returns what is wrong with the input that came with the request, or nil. It does not
// read that input.
func (d *Dialog) Fault() error {
	if conv, asked := d.conversation(); asked {
		return conv.fault()
	}
	return nil
}

// conversation returns the source if there is one and the call has not become a task.
func (d *Dialog) conversation() (conversation, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	conv, asked := d.source.(conversation)
	return conv, asked
}

// Keep keeps a value for the next run of the handler.
func (d *Dialog) Keep(v any) error {
	raw, err := wire.Marshal(nil, v)
	if err != nil {
		return fmt.Errorf("server: encode what is kept: %w", err)
	}
	// The value that came with the request is older than v.
	if err := d.load(); err != nil {
		return err
	}
	d.keep(raw)
	return nil
}

// Kept decodes what an earlier run of the handler has kept into the variable that v points
// to, and reports whether there was anything.
func (d *Dialog) Kept(v any) (bool, error) {
	if err := d.load(); err != nil {
		return false, err
	}
	raw := d.keeps()
	if raw == nil {
		return false, nil
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return false, fmt.Errorf("server: decode what was kept: %w", err)
	}
	return true, nil
}

func (d *Dialog) load() error {
	if conv, ok := d.open().(conversation); ok {
		return conv.load()
	}
	return nil
}

// newConversation returns the source of a call in its own era.
func newConversation(c *Call) conversation {
	if c.Request.Peer.Era == mcp.Modern {
		return &modern{call: c}
	}
	return &legacy{call: c}
}
