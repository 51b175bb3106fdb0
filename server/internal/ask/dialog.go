package ask

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server/internal/era"
)

// A Dialog is what one call asks its client. All but the four fields is made when the
// first question is asked, because most calls ask nothing. Its methods may be called from
// any goroutine.
type Dialog struct {
	Asker   *Asker
	Request *middleware.Request
	Core    *session.Request
	// Ctx is what the handler was called with; questions wait no longer than it lives.
	Ctx context.Context

	mu sync.Mutex // guards the rest
	// source answers the handler's questions. Nil stands for the source of the request's
	// own era.
	source Source
	kept   jsontext.Value // what the handler has kept for its next run
}

// A Source gets answers to the questions of a handler. What stands behind it
// depends on how the client can be asked; the handler does not know.
type Source interface {
	// Ask returns the answer if it is there, or waits for it, or notes the question and
	// returns an error that matches [mcp.ErrInputRequired]. An answer that is returned
	// has passed q.Check; one that has not is asked for again. It may be called from
	// many goroutines.
	Ask(ctx context.Context, key string, q Question) (jsontext.Value, error)
}

// A conversation is the source of a request in its own era.
type conversation interface {
	Source
	// next ends a round: it puts the open questions to the client. Without a result and an
	// error the handler is to run again; else the request is over.
	next(ctx context.Context) (mcp.Result, error)
	// load reads the input that came with the request, if that was not done before, and
	// returns the fault.
	load() error
	// fault is what is wrong with the input that came with the request. It counts even
	// if the handler went on.
	fault() error
}

// A Question is one thing that a handler wants of the client: the request as the
// handler has made it, in the form of the latest revision.
type Question struct {
	mcp.InputRequest
	// Check reports what is wrong with an answer. It may run code of the handler's author.
	Check func(answer jsontext.Value) error
	// page is the id of the page that the user is asked to open, if the handler has given
	// it one. It is no part of the question: a modern client has no use for it.
	page string
}

// maxKey bounds the key of a question, in bytes.
const maxKey = 128

// Ask asks one question, if the client has declared that it can be asked.
func (d *Dialog) Ask(key string, need mcp.ClientCapabilities, q Question) (jsontext.Value, error) {
	if key == "" || len(key) > maxKey {
		return nil, fmt.Errorf("server: the key of a question has 1 to %d bytes, not %d", maxKey, len(key))
	}
	if missing, lacks := era.Askable(d.Request).Lacks(need); lacks {
		return nil, fmt.Errorf("question %q: %w", key, &mcp.NotDeclaredError{Missing: missing})
	}
	return d.open().Ask(d.Ctx, key, q)
}

// open returns what answers the call's questions.
func (d *Dialog) open() Source {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.source == nil {
		d.source = newConversation(d)
	}
	return d.source
}

// Asked reports whether the handler wanted anything of its client.
func (d *Dialog) Asked() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.source != nil
}

// AnswerWith lets another source answer the questions that are asked from now on.
func (d *Dialog) AnswerWith(s Source) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.source = s
}

// Fault returns what is wrong with the input that came with the request, as far as it was
// read.
func (d *Dialog) Fault() error {
	if conv, asked := d.conversation(); asked {
		return conv.fault()
	}
	return nil
}

// conversation returns the source of the call if the handler has asked anything of it,
// and the call has not become a task meanwhile.
func (d *Dialog) conversation() (conversation, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	conv, asked := d.source.(conversation)
	return conv, asked
}

// Converse takes a request from the first return of its handler, with result and err, to its
// end, if the handler has asked for input or has failed. again calls the handler again.
func (d *Dialog) Converse(result mcp.Result, err error, again func() (mcp.Result, error)) (mcp.Result, error) {
	for {
		err = d.requireURLs(err)
		conv, asked := d.conversation()
		if asked && conv.fault() != nil {
			return nil, conv.fault()
		}
		if err == nil {
			return result, nil
		}
		_, decided := mcp.AsError(err)
		switch {
		case decided:
			return result, err
		case errors.Is(err, mcp.ErrNotDeclared):
			return era.NotDeclared(d.Request, err)
		case !errors.Is(err, mcp.ErrInputRequired):
			return result, err
		case !asked:
			return nil, era.Fault{Err: fmt.Errorf("%w: %w", errNoQuestion, err)}
		}
		result, err = conv.next(d.Ctx)
		if result != nil || err != nil {
			return result, d.roundsFault(err)
		}
		result, err = again()
	}
}

// roundsFault words an error that ends a conversation.
func (d *Dialog) roundsFault(err error) error {
	if errors.Is(err, errNoQuestion) {
		return era.Fault{Err: err}
	}
	if !errors.Is(err, errRounds) {
		return err
	}
	core := d.Asker.core
	core.LimitReached(limits.NameInputRounds)
	return mcp.NewError(mcp.CodeInvalidParams, "the request has asked for input %d times, which is all that %s allows",
		core.Limits().MaxInputRounds, limits.NameInputRounds).
		WithData(mcp.ErrorData{Limit: limits.NameInputRounds})
}

// Keep keeps a value for the runs of the handler that follow questions.
func (d *Dialog) Keep(v any) error {
	raw, err := wire.Marshal(nil, v)
	if err != nil {
		return fmt.Errorf("server: encode what is kept: %w", err)
	}
	// What came with the request is older than v.
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

func (d *Dialog) keep(raw jsontext.Value) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.kept = raw
}

func (d *Dialog) keeps() jsontext.Value {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.kept
}
