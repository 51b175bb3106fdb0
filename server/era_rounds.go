package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/observe"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server/internal/era"
)

// How a handler's questions reach the client and its answers come back. A modern
// client is sent the questions as the result, and makes its request again; a legacy
// one is sent requests while its own request waits. Either way the handler runs again.

// A conversation is the inputSource of a request in its own era.
type conversation interface {
	inputSource
	// next ends a round: it puts the open questions to the client. Without a result and an
	// error the handler is to run again; else the request is over.
	next(ctx context.Context) (mcp.Result, error)
	// fault is what is wrong with the input that came with the request. It counts even
	// if the handler went on.
	fault() error
}

func (c *Call) newSource() inputSource {
	if c.Peer.Era == mcp.Modern {
		return &stateInput{call: c}
	}
	return &sessionInput{call: c}
}

// conversation returns the source of the call if the handler has asked anything of it,
// and the call has not become a task meanwhile.
func (c *Call) conversation() (conversation, bool) {
	c.asking.Lock()
	defer c.asking.Unlock()
	conv, asked := c.input.(conversation)
	return conv, asked
}

// converse takes a request from the first return of its handler to its end, if the
// handler has asked for input or has failed.
func (s *Server) converse(call *Call, h callHandler, result mcp.Result, err error) (mcp.Result, error) {
	for {
		err = call.urlsRequired(err)
		conv, asked := call.conversation()
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
			return era.NotDeclared(call.Request, err)
		case !errors.Is(err, mcp.ErrInputRequired):
			return result, err
		case !asked:
			return nil, era.Fault{Err: fmt.Errorf("%w: %w", errNoQuestion, err)}
		}
		result, err = conv.next(call.ctx)
		if result != nil || err != nil {
			return result, call.roundsFault(err)
		}
		result, err = h(call.ctx, call)
	}
}

// errRounds: a request that asks for ever is ended.
var errRounds = errors.New("server: too many rounds of input")

// roundsFault words an error that ends a conversation.
func (c *Call) roundsFault(err error) error {
	if errors.Is(err, errNoQuestion) {
		return era.Fault{Err: err}
	}
	if !errors.Is(err, errRounds) {
		return err
	}
	c.server.core.LimitReached(session.LimitInputRounds)
	return mcp.NewError(mcp.CodeInvalidParams, "the request has asked for input %d times, which is all that %s allows",
		c.server.core.Limits().MaxInputRounds, session.LimitInputRounds).
		WithData(mcp.ErrorData{Limit: session.LimitInputRounds})
}

// stateInput talks to a modern client: the answers come with the request, together with
// the sealed state of the rounds before.
type stateInput struct {
	rounds
	call    *Call
	once    sync.Once
	refused atomic.Pointer[mcp.Error]
	binding binding
}

// load reads what the request brings, when it is first needed: most calls ask nothing.
func (in *stateInput) load() error {
	in.once.Do(func() {
		if refused := in.read(); refused != nil {
			in.refused.Store(refused)
			in.log(refused)
		}
	})
	return in.fault()
}

func (in *stateInput) fault() error {
	if refused := in.refused.Load(); refused != nil {
		return refused
	}
	return nil
}

func (in *stateInput) read() *mcp.Error {
	r := in.call.core
	var err error
	if in.binding, err = bindingOf(r.Inbound, in.call.Principal.Key()); err != nil {
		return mcp.NewError(mcp.CodeInvalidParams, "params.arguments are not valid")
	}
	var params struct {
		InputResponses map[string]jsontext.Value `json:"inputResponses"`
		RequestState   *string                   `json:"requestState"`
	}
	if err := json.Unmarshal(r.Params, &params); err != nil {
		return mcp.NewError(mcp.CodeInvalidParams,
			"params.inputResponses must be an object and params.requestState a string")
	}
	if params.RequestState == nil {
		// Nobody was asked yet, and still a client may know what it will be asked.
		for key, value := range params.InputResponses {
			in.answer(key, answer{Value: value})
		}
		return nil
	}
	st, refused := in.call.server.unsealState(*params.RequestState, in.binding)
	if refused != nil {
		return refused
	}
	observe.LinkSpan(in.call.ctx, st.TraceParent)
	in.done = st.Round
	for key, a := range st.Answers {
		in.answer(key, a)
	}
	for key, asked := range st.Asked {
		if value, given := params.InputResponses[key]; given {
			in.answer(key, answer{Asked: asked, Value: value})
		}
	}
	in.call.asking.Lock()
	in.call.kept = st.Kept
	in.call.asking.Unlock()
	return nil
}

func (in *stateInput) log(refused *mcp.Error) {
	if data, ok := refused.Data.(mcp.ErrorData); ok {
		in.call.server.logger.LogAttrs(in.call.ctx, slog.LevelInfo, "state.refused",
			slog.String("method", in.call.Method), slog.String("target", in.call.Route.Target), slog.String("reason", data.Reason))
	}
}

// mayAskBack reports whether the result of a method may be a question.
func mayAskBack(method string) bool {
	return method == mcp.MethodToolsCall || method == mcp.MethodPromptsGet || method == mcp.MethodResourcesRead
}

func (in *stateInput) ask(_ context.Context, key string, q question) (jsontext.Value, error) {
	if in.call.core.Settled() {
		return nil, mcp.ErrRequestDone
	}
	if !mayAskBack(in.call.Method) {
		return nil, mcp.ErrNoBackChannel
	}
	if err := in.load(); err != nil {
		return nil, err
	}
	return in.rounds.ask(key, q)
}

func (in *stateInput) next(ctx context.Context) (mcp.Result, error) {
	s := in.call.server
	open, asked, err := in.rounds.next(s.core.Limits().MaxInputRounds)
	if err != nil {
		return nil, err
	}
	requests := make(map[string]mcp.InputRequest, len(open))
	for key, q := range open {
		if requests[key], err = in.send(ctx, key, asked[key], q.InputRequest); err != nil {
			delete(requests, key)
			delete(asked, key)
		}
	}
	if len(requests) == 0 {
		return nil, nil // all were answered on their way
	}
	in.call.asking.Lock()
	kept := in.call.kept
	in.call.asking.Unlock()
	in.mu.Lock()
	defer in.mu.Unlock()
	// What nobody has asked for is not carried along: its client would fill the state with it.
	maps.DeleteFunc(in.answers, func(_ string, a answer) bool { return a.Asked == nil })
	sealed, err := s.sealState(requestState{
		Binding: in.binding, Round: in.done, Answers: in.answers, Asked: asked, Kept: kept,
		TraceParent: observe.TraceParent(in.call.ctx),
	})
	if err != nil {
		return nil, err
	}
	return &mcp.InputRequiredResult{InputRequests: requests, RequestState: sealed}, nil
}

// send puts a question through the chain of what is sent to clients, and returns it as that
// lets it out. A question that is answered on its way is not asked; the error says so.
func (in *stateInput) send(ctx context.Context, key string, asked digest, q mcp.InputRequest) (mcp.InputRequest, error) {
	if in.call.server.sending == nil {
		return q, nil
	}
	var params jsontext.Value
	if q.Params != nil {
		raw, err := wire.Marshal(nil, q.Params)
		if err != nil {
			return q, err
		}
		params = raw
	}
	out := q
	value, err := in.call.send(ctx, q.Method, params, func(_ context.Context, params jsontext.Value) (jsontext.Value, error) {
		if params != nil {
			out.Params = params
		}
		return nil, mcp.ErrInputRequired
	})
	if errors.Is(err, mcp.ErrInputRequired) {
		return out, nil
	}
	in.answer(key, answer{Asked: asked, Value: value, err: err})
	return q, errAnswered
}

// errEndedOnItsWay is the answer to a question of which a middleware has ended the goroutine.
var errEndedOnItsWay = errors.New("server: a middleware of requests to clients has ended its goroutine")

// errAnswered says that a question need not be asked any more.
var errAnswered = errors.New("server: the question was answered on its way")

// sessionInput talks to a legacy client: it is asked while the request waits.
type sessionInput struct {
	rounds
	call *Call
}

func (in *sessionInput) fault() error { return nil }

func (in *sessionInput) ask(_ context.Context, key string, q question) (jsontext.Value, error) {
	if in.call.core.Settled() {
		return nil, mcp.ErrRequestDone
	}
	return in.rounds.ask(key, q)
}

// next asks all open questions at the same time and waits for all answers. That a
// question could not be asked, or was answered with an error, is for the handler to
// see; only the end of the request ends the conversation.
func (in *sessionInput) next(ctx context.Context) (mcp.Result, error) {
	open, asked, err := in.rounds.next(in.call.server.core.Limits().MaxInputRounds)
	if err != nil {
		return nil, err
	}
	var wg sync.WaitGroup
	for key, q := range open {
		// Encoded here, and not on a goroutine that nobody guards against a user's panic.
		method, params, err := encodeQuestion(in.call.Peer.Version, q)
		if err != nil {
			in.answer(key, answer{Asked: asked[key], err: err})
			continue
		}
		if q.page != "" {
			in.call.server.pages.asked(in.call.core, q.page)
		}
		wg.Go(func() {
			value, err := jsontext.Value(nil), errEndedOnItsWay
			defer func() { in.answer(key, answer{Asked: asked[key], Value: value, err: err}) }()
			value, err = in.call.send(ctx, method, params, func(ctx context.Context, params jsontext.Value) (jsontext.Value, error) {
				return in.call.core.Ask(ctx, method, params)
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
func (in *sessionInput) tooLarge() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	size := answersSize(in.answers)
	return in.call.server.checkStateSize(size, size)
}

func encodeQuestion(v mcp.Version, q question) (method string, params []byte, err error) {
	worded, err := era.Question(v, q.InputRequest, q.page)
	if err != nil || worded.Params == nil {
		return q.Method, nil, err
	}
	if params, err = wire.Marshal(nil, worded.Params); err != nil {
		err = fmt.Errorf("server: encode the params of %s: %w", q.Method, err)
	}
	return q.Method, params, err
}
