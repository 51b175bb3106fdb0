package ask

import (
	"context"
	"errors"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server/internal/era"
)

// legacy is the conversation with a legacy client. The request waits for the answers.
type legacy struct {
	rounds
	call *Call
}

func (in *legacy) load() error  { return nil }
func (in *legacy) fault() error { return nil }

func (in *legacy) Context() context.Context { return in.call.Ctx }

func (in *legacy) Ask(key string, q Question) (jsontext.Value, error) {
	if in.call.Core.Settled() {
		return nil, mcp.ErrRequestDone
	}
	return in.rounds.ask(in.call, key, q)
}

// next sends all open questions at the same time and waits for all answers. The handler gets
// the error of a question that could not be sent or was answered with an error. Only the end of
// the request ends the conversation.
func (in *legacy) next(ctx context.Context) (mcp.Result, error) {
	open, asked, err := in.rounds.next(in.call.Asker.core.Limits().MaxInputRounds)
	if err != nil {
		return nil, err
	}
	var wg sync.WaitGroup
	for key, q := range open {
		// Encoded here, because nothing recovers a panic of a marshaler on the new goroutine.
		params, err := encodeQuestion(in.call.Request.Peer.Version, q)
		if err != nil {
			in.answer(key, answer{Asked: asked[key], err: err})
			continue
		}
		if q.page != "" {
			in.call.Asker.pages.add(in.call.Core, q.page)
		}
		wg.Go(func() {
			value, err := jsontext.Value(nil), errMiddlewareExited
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

// tooLarge returns an error if the answers that the request holds in memory take more than
// max_state_bytes, which bounds the state of modern requests.
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

// errMiddlewareExited is the answer to a question whose goroutine was ended by a middleware
// (runtime.Goexit).
var errMiddlewareExited = errors.New("server: a middleware of requests to clients has ended its goroutine")
