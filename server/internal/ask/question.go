package ask

import (
	"context"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// A Source gets answers to the questions of a handler. What stands behind it
// depends on how the client can be asked; the handler does not know.
type Source interface {
	// Ask returns the answer if it is there, or waits for it, or notes the question and
	// returns an error that matches [mcp.ErrInputRequired]. An answer that is returned
	// has passed q.Check; one that has not is asked for again. It may be called from
	// many goroutines.
	Ask(ctx context.Context, key string, q Question) (jsontext.Value, error)
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
