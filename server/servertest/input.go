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
	ResultType    string                      `json:"resultType"`
	InputRequests map[string]mcp.InputRequest `json:"inputRequests"`
	RequestState  jsontext.Value              `json:"requestState"`
}

// questionsOf returns questions by their keys; nil if there are none.
func questionsOf(requests map[string]mcp.InputRequest) (questions map[string]Question) {
	for key, r := range requests {
		if questions == nil {
			questions = map[string]Question{}
		}
		params, _ := r.Params.(jsontext.Value)
		questions[key] = Question{Key: key, Method: r.Method, Params: params}
	}
	return questions
}

// answerAll has [OnInput] answer questions, and returns the answers by key.
func (c *Client) answerAll(ctx context.Context, questions map[string]Question) (map[string]jsontext.Value, error) {
	answers := make(map[string]jsontext.Value, len(questions))
	for key, q := range questions {
		answer, err := c.answerTo(ctx, q)
		if err != nil {
			return nil, fmt.Errorf("servertest: question %q: %w", key, err)
		}
		answers[key] = answer
	}
	return answers, nil
}

// answerInput returns the params with which a call is made again, or nil if its
// result asks nothing.
func (c *Client) answerInput(ctx context.Context, params any, result jsontext.Value) (any, error) {
	var asked inputRequired
	if c.cfg.input == nil || json.Unmarshal(result, &asked) != nil || asked.ResultType != "input_required" {
		return nil, nil
	}
	answers, err := c.answerAll(ctx, questionsOf(asked.InputRequests))
	if err != nil {
		return nil, err
	}
	members, err := membersOf(params)
	if err != nil {
		return nil, err
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
	return c.answerTo(ctx, Question{Method: msg.Method, Params: msg.Params})
}

var errNoAnswer = errors.New("servertest: OnInput has returned neither an answer nor an error")

// answerTo has [OnInput] answer one question.
func (c *Client) answerTo(ctx context.Context, q Question) (jsontext.Value, error) {
	answer, err := c.cfg.input(ctx, q)
	if err == nil && answer == nil {
		err = errNoAnswer
	}
	if err != nil {
		return nil, err
	}
	return wire.Marshal(nil, answer)
}
