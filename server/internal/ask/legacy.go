package ask

import (
	"context"
	"errors"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server/internal/era"
)

// legacy is the conversation with a legacy client: it is asked while the request waits.
type legacy struct {
	rounds
	call *Call
}

func (in *legacy) load() error  { return nil }
func (in *legacy) fault() error { return nil }

func (in *legacy) Ask(_ context.Context, key string, q Question) (jsontext.Value, error) {
	if in.call.Core.Settled() {
		return nil, mcp.ErrRequestDone
	}
	return in.rounds.ask(key, q)
}

// next asks all open questions at the same time and waits for all answers. That a
// question could not be asked, or was answered with an error, is for the handler to
// see; only the end of the request ends the conversation.
func (in *legacy) next(ctx context.Context) (mcp.Result, error) {
	open, asked, err := in.rounds.next(in.call.Asker.core.Limits().MaxInputRounds)
	if err != nil {
		return nil, err
	}
	var wg sync.WaitGroup
	for key, q := range open {
		// Encoded here, and not on a goroutine that nobody guards against a user's panic.
		params, err := encodeQuestion(in.call.Request.Peer.Version, q)
		if err != nil {
			in.answer(key, answer{Asked: asked[key], err: err})
			continue
		}
		if q.page != "" {
			in.call.Asker.pages.add(in.call.Core, q.page)
		}
		wg.Go(func() {
			value, err := jsontext.Value(nil), errEndedOnItsWay
			defer func() { in.answer(key, answer{Asked: asked[key], Value: value, err: err}) }()
			value, err = in.call.Send(ctx, q.Method, params, func(ctx context.Context, params jsontext.Value) (jsontext.Value, error) {
				return in.call.Core.Ask(ctx, q.Method, params)
			})
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return nil, in.tooLarge()
}

// tooLarge is an error if the answers of a request, which it holds in memory, are more
// than a modern client could carry.
func (in *legacy) tooLarge() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	size := answersSize(in.answers)
	return in.call.Asker.checkStateSize(size, size)
}

func encodeQuestion(v mcp.Version, q Question) (params jsontext.Value, err error) {
	worded, err := era.Question(v, q.InputRequest, q.page)
	if err != nil {
		return nil, err
	}
	return EncodeParams(q.Method, worded.Params)
}

// errEndedOnItsWay is the answer to a question of which a middleware has ended the goroutine.
var errEndedOnItsWay = errors.New("server: a middleware of requests to clients has ended its goroutine")
