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
func (c *config) answerAll(ctx context.Context, questions map[string]Question) (map[string]jsontext.Value, error) {
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

// answerInput returns the params for making a call again, or nil if its result asks nothing.
func (c *config) answerInput(ctx context.Context, params any, result jsontext.Value) (any, error) {
	var asked inputRequired
	if c.input == nil || json.Unmarshal(result, &asked) != nil || asked.ResultType != "input_required" {
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

var errNoAnswer = errors.New("servertest: OnInput has returned neither an answer nor an error")

// answerTo has [OnInput] answer one question.
func (c *config) answerTo(ctx context.Context, q Question) (jsontext.Value, error) {
	answer, err := c.input(ctx, q)
	if err == nil && answer == nil {
		err = errNoAnswer
	}
	if err != nil {
		return nil, err
	}
	return wire.Marshal(nil, answer)
}
