package ask

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/observe"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// modern is the conversation with a modern client. The answers come with the request, together
// with the sealed state of the earlier rounds.
type modern struct {
	rounds
	call    *Call
	once    sync.Once
	refused atomic.Pointer[mcp.Error]
	binding binding
}

// load reads the answers and the state when they are first needed, because most calls ask
// nothing.
func (in *modern) load() error {
	in.once.Do(func() {
		if refused := in.read(); refused != nil {
			in.log(refused)
			in.refused.Store(in.tell(refused))
		}
	})
	return in.fault()
}

func (in *modern) fault() error {
	if refused := in.refused.Load(); refused != nil {
		return refused
	}
	return nil
}

func (in *modern) read() *mcp.Error {
	r := in.call.Core
	var err error
	if in.binding, err = bindingOf(r.Inbound, in.call.Request.Principal.Key()); err != nil {
		return mcp.NewError(mcp.CodeInvalidParams, "params.arguments are not valid")
	}
	var params struct {
		InputResponses jsontext.Value `json:"inputResponses"`
		RequestState   *string        `json:"requestState"`
	}
	err = wire.Unmarshal(r.Params, &params)
	if kind := params.InputResponses.Kind(); err != nil || len(params.InputResponses) > 0 && kind != '{' && kind != 'n' {
		return mcp.NewError(mcp.CodeInvalidParams,
			"params.inputResponses must be an object and params.requestState a string")
	}
	if params.RequestState == nil {
		in.unasked(params.InputResponses)
		return nil
	}
	st, refused := in.call.Asker.unsealState(*params.RequestState, in.binding)
	if refused != nil {
		return refused
	}
	observe.LinkSpan(in.call.Ctx, st.TraceParent)
	in.done = st.Round
	for key, a := range st.Answers {
		in.answer(key, a)
	}
	answers, _ := wire.Pick(params.InputResponses, func(key []byte) bool { _, asked := st.Asked[string(key)]; return asked })
	for key, asked := range st.Asked {
		value, given := answers[key]
		if given {
			in.answer(key, answer{Asked: asked, Value: value})
		}
		if n := st.Malformed[key]; n > 0 {
			in.faulty.load(key, malformedCount{asked, n})
		}
		if method := st.Methods[key]; method != "" {
			observe.Returned(r, method, st.TraceParent, given)
		}
	}
	in.call.keep(st.Kept)
	return nil
}

func (in *modern) log(refused *mcp.Error) {
	if data, ok := refused.Data.(mcp.ErrorData); ok {
		in.call.Asker.Logger.InfoContext(in.call.Ctx, "state.refused", append(in.call.Core.LogAttrs(), "reason", data.Reason)...)
	}
}

// tell returns the error that the caller gets. The state of another principal is answered as one that was
// never issued.
func (in *modern) tell(refused *mcp.Error) *mcp.Error {
	if data, ok := refused.Data.(mcp.ErrorData); !ok || data.Reason != string(mcp.StatePrincipal) {
		return refused
	}
	in.call.Asker.core.Foreign(session.ForeignState, in.call.Core)
	return stateError(mcp.StateMalformed, "")
}

// unasked ignores answers that came without a state, unless the server takes them. They answer
// nothing that this server has asked: a client that knows the keys of the questions could consent in
// the name of its user, who was never asked.
func (in *modern) unasked(answers jsontext.Value) {
	taken, count := wire.Pick(answers, func([]byte) bool { return in.call.Asker.unasked })
	for key, value := range taken {
		in.answer(key, answer{Value: value})
	}
	if count > len(taken) {
		in.call.Asker.Logger.LogAttrs(in.call.Ctx, slog.LevelDebug, "answers.ignored",
			slog.String("method", in.call.Request.Method), slog.String("target", in.call.Request.Route.Target), slog.Int("answers", count))
	}
}

// mayAskBack reports whether the result of a method may be a question.
func mayAskBack(method string) bool {
	return method == mcp.MethodToolsCall || method == mcp.MethodPromptsGet || method == mcp.MethodResourcesRead
}

func (in *modern) Context() context.Context { return in.call.Ctx }

func (in *modern) Ask(key string, q Question) (jsontext.Value, error) {
	if in.call.Core.Settled() {
		return nil, mcp.ErrRequestDone
	}
	if !mayAskBack(in.call.Request.Method) {
		return nil, mcp.ErrNoBackChannel
	}
	if err := in.load(); err != nil {
		return nil, err
	}
	return in.rounds.ask(in.call, key, q)
}

func (in *modern) next(ctx context.Context) (mcp.Result, error) {
	a := in.call.Asker
	open, asked, err := in.rounds.next(a.core.Limits().MaxInputRounds)
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
		return nil, nil // middlewares have answered all questions
	}
	kept := in.call.keeps()
	in.mu.Lock()
	defer in.mu.Unlock()
	// Answers without a question stay out of the state, so that a client cannot fill it.
	maps.DeleteFunc(in.answers, func(_ string, a answer) bool { return a.Asked == nil })
	round := observe.TraceParent(in.call.Ctx)
	sealed, err := a.sealState(requestState{
		Binding: in.binding, Round: in.done, Answers: in.answers, Asked: asked, Methods: methodsOf(requests), Kept: kept,
		Malformed: in.faulty.of(asked), TraceParent: round,
	})
	if err != nil {
		return nil, err
	}
	for _, q := range requests {
		observe.Asked(in.call.Core, q.Method, round, a.core.Limits().StateTTL)
	}
	return &mcp.InputRequiredResult{InputRequests: requests, RequestState: sealed}, nil
}

// methodsOf returns the methods of questions by their keys.
func methodsOf(requests map[string]mcp.InputRequest) map[string]string {
	methods := make(map[string]string, len(requests))
	for key, q := range requests {
		methods[key] = q.Method
	}
	return methods
}

// send passes a question through the chain of sending middlewares and returns what comes out of
// it. If a middleware has answered the question, the error is errAnswered.
func (in *modern) send(ctx context.Context, key string, asked digest, q mcp.InputRequest) (mcp.InputRequest, error) {
	if in.call.Asker.sending == nil {
		return q, nil
	}
	params, err := EncodeParams(q.Method, q.Params)
	if err != nil {
		return q, err
	}
	out := q
	value, err := in.call.Send(ctx, q.Method, params, func(_ context.Context, params jsontext.Value) (jsontext.Value, error) {
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

// errAnswered says that a middleware has answered a question.
var errAnswered = errors.New("server: a middleware has answered the question")
