package servertest

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A Question is something that a handler wants of the client.
type Question struct {
	// Key is the name that the handler has given to the question; a legacy client does
	// not learn it.
	Key string
	// Method is [mcp.MethodElicitationCreate], [mcp.MethodSamplingCreateMessage] or [mcp.MethodRootsList],
	// or anything else that a handler sends by CallClient.
	Method string
	Params jsontext.Value
}

// OnInput lets f answer what handlers ask, in both eras alike: the call that asks goes
// on with the answer and returns in the end what it would have returned without a
// question. An answer such as [*mcp.ElicitResult] is encoded to JSON; whether it is one
// is for the server to find out. The client must also declare what it can be asked;
// see [Capabilities]. f is called from many goroutines if there are
// several questions at a time.
//
// An error of f ends the call of a modern client, which has no other way to say no. A
// legacy client sends it to the server, an [*mcp.Error] as it is.
//
// Without OnInput a modern call returns the questions as its result, and a legacy
// client answers that it has no such method.
func OnInput(f func(ctx context.Context, q Question) (any, error)) Option {
	return optionFunc(func(c *config) { c.input = f })
}

// inputRequired is the result that asks a modern client.
type inputRequired struct {
	ResultType    string `json:"resultType"`
	InputRequests map[string]struct {
		Method string         `json:"method"`
		Params jsontext.Value `json:"params"`
	} `json:"inputRequests"`
	RequestState jsontext.Value `json:"requestState"`
}

// answerInput returns the params with which a call is made again, or nil if its
// result asks nothing.
func (c *Client) answerInput(ctx context.Context, params any, result jsontext.Value) (any, error) {
	var asked inputRequired
	if c.cfg.input == nil || json.Unmarshal(result, &asked) != nil || asked.ResultType != "input_required" {
		return nil, nil
	}
	answers := make(map[string]jsontext.Value, len(asked.InputRequests))
	for key, r := range asked.InputRequests {
		answer, err := c.cfg.input(ctx, Question{Key: key, Method: r.Method, Params: r.Params})
		if err == nil {
			answers[key], err = answerOf(answer)
		}
		if err != nil {
			return nil, fmt.Errorf("servertest: question %q: %w", key, err)
		}
	}
	raw, err := objectOf(params)
	if err != nil {
		return nil, err
	}
	members := map[string]jsontext.Value{}
	if raw != nil {
		if err := json.Unmarshal(raw, &members); err != nil {
			return nil, err
		}
	}
	members["requestState"] = asked.RequestState
	members["inputResponses"], err = wire.Marshal(nil, answers)
	return members, err
}

// asked answers a request of the server, off the goroutine that reads.
func (c *Client) asked(msg *wire.Envelope) {
	c.answering.Go(func() {
		// Its fate is the connection's.
		_ = c.send(c.connected, c.answerFrame(c.connected, msg))
	})
}

func (c *Client) answerFrame(ctx context.Context, msg *wire.Envelope) []byte {
	raw, err := c.answer(ctx, msg)
	if err == nil {
		return append(append(wire.AppendResponseHead(nil, msg.ID), raw...), '}', '\n')
	}
	rpc, ok := mcp.AsError(err)
	if !ok {
		rpc = mcp.NewError(mcp.CodeInternalError, "%s", err)
	}
	return append(wire.AppendError(nil, msg.ID, rpc), '\n')
}

func (c *Client) answer(ctx context.Context, msg *wire.Envelope) (jsontext.Value, error) {
	switch {
	case msg.Method == mcp.MethodPing:
		return jsontext.Value("{}"), nil
	case c.cfg.input == nil:
		return nil, mcp.NewError(mcp.CodeMethodNotFound, "the client has no method %q", msg.Method)
	}
	answer, err := c.cfg.input(ctx, Question{Method: msg.Method, Params: msg.Params})
	if err != nil {
		return nil, err
	}
	return answerOf(answer)
}

var errNoAnswer = errors.New("servertest: OnInput has returned neither an answer nor an error")

func answerOf(answer any) (jsontext.Value, error) {
	if answer == nil {
		return nil, errNoAnswer
	}
	return wire.Marshal(nil, answer)
}
