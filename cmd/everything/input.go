package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
)

// The names and the questions of these tools are the suite's. Each works in both eras.

// inputFixtures are the tools that ask the client for something.
var inputFixtures = []fixture{
	asks("test_input_required_result_elicitation", "Ask for a name, and greet.", askName),
	asks("test_input_required_result_sampling", "Ask the client's model for a capital.", askCapital),
	asks("test_input_required_result_list_roots", "Ask for the client's roots.", askRoots),
	asks("test_input_required_result_request_state", "Ask for a confirmation, and keep something meanwhile.", askWithState),
	asks("test_input_required_result_multiple_inputs", "Ask the user, the model and for the roots at once.", askAll),
	asks("test_input_required_result_multi_round", "Ask twice, one after the other.", askTwice),
	asks("test_input_required_result_tampered_state", "Ask for a confirmation whose state must not be changed.", confirm),
	asks("test_input_required_result_capabilities", "Ask the model or the user, whichever can be asked.", askEither),
	asks("test_missing_capability", "Ask the client's model, and fail without one.", askCapital),
	asks("test_streaming_elicitation", "Ask for a name, and greet.", askName),
	tool(server.Tool{Name: "test_sampling", Description: "Ask the client's model."}, askModel),
	tool(server.Tool{Name: "test_elicitation", Description: "Ask the user."}, askUser),
	asks("test_elicitation_sep1034_defaults", "Ask with a form whose fields are filled in already.", askDefaults),
	asks("test_elicitation_sep1330_enums", "Ask with a form of choices of every kind.", askEnums),
}

// asks returns a tool without arguments that asks something.
func asks(name, description string, ask func(*server.Call) (string, error)) fixture {
	return tool(server.Tool{Name: name, Description: description},
		func(_ context.Context, call *server.Call, _ none) (string, error) { return ask(call) })
}

type nameForm struct {
	Name string `json:"name" jsonschema:"your name"`
}

func askName(call *server.Call) (string, error) {
	user, action, err := server.ElicitForm[nameForm](call, "user_name", "What is your name?")
	if err != nil {
		return "", err
	}
	if action != mcp.ElicitAccept {
		return "You did not say.", nil
	}
	return "Hello, " + user.Name + "!", nil
}

func askCapital(call *server.Call) (string, error) {
	return sample(call, "capital_question", "What is the capital of France?")
}

// sample asks the client's model.
func sample(call *server.Call, key, text string) (string, error) {
	answer, err := call.Sample(key, prompting(text, 100))
	if err != nil {
		return "", err
	}
	return "LLM response: " + answer.Content.Text(), nil
}

func prompting(text string, tokens int) *mcp.CreateMessageParams {
	return &mcp.CreateMessageParams{MaxTokens: tokens, Messages: []mcp.SamplingMessage{
		{Role: mcp.RoleUser, Content: mcp.ContentBlocks{&mcp.TextContent{Text: text}}},
	}}
}

func askRoots(call *server.Call) (string, error) {
	roots, err := call.Roots("client_roots")
	if err != nil {
		return "", err
	}
	text := fmt.Sprintf("%d roots:", len(roots))
	for _, root := range roots {
		text += " " + root.URI
	}
	return text, nil
}

type okForm struct {
	OK bool `json:"ok" jsonschema:"go on?"`
}

func confirm(call *server.Call) (string, error) {
	answer, action, err := server.ElicitForm[okForm](call, "confirm", "Please confirm")
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s, ok: %t", action, answer.OK), nil
}

func askWithState(call *server.Call) (string, error) {
	var kept string
	found, err := call.Kept(&kept)
	if err != nil {
		return "", err
	}
	if !found {
		if err := call.Keep("state-ok"); err != nil {
			return "", err
		}
	}
	answer, err := confirm(call)
	return kept + ": " + answer, err
}

func askAll(call *server.Call) (string, error) {
	name, errUser := askName(call)
	greeting, errModel := call.Sample("greeting", prompting("Write a greeting.", 50))
	roots, errRoots := askRoots(call)
	if err := errors.Join(errUser, errModel, errRoots); err != nil {
		return "", err
	}
	return name + " " + greeting.Content.Text() + " " + roots, nil
}

type colorForm struct {
	Color string `json:"color"`
}

func askTwice(call *server.Call) (string, error) {
	user, _, err := server.ElicitForm[nameForm](call, "step1", "Step 1: what is your name?")
	if err != nil {
		return "", err
	}
	favourite, _, err := server.ElicitForm[colorForm](call, "step2", "Step 2: what is your favourite color?")
	if err != nil {
		return "", err
	}
	return user.Name + " likes " + favourite.Color, nil
}

func askEither(call *server.Call) (string, error) {
	answer, err := askCapital(call)
	if errors.Is(err, mcp.ErrNotDeclared) {
		return askName(call)
	}
	return answer, err
}

type samplingInput struct {
	Prompt string `json:"prompt" jsonschema:"what to ask the model"`
}

func askModel(_ context.Context, call *server.Call, in samplingInput) (string, error) {
	return sample(call, "prompt", in.Prompt)
}

type elicitationInput struct {
	Message string `json:"message" jsonschema:"what to ask the user"`
}

type userForm struct {
	Username string `json:"username" jsonschema:"User's response"`
	Email    string `json:"email" jsonschema:"User's email address"`
}

func askUser(_ context.Context, call *server.Call, in elicitationInput) (string, error) {
	user, action, err := server.ElicitForm[userForm](call, "user", in.Message)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("User response: action=%s, username=%s, email=%s", action, user.Username, user.Email), nil
}

type defaultsForm struct {
	Name     string  `json:"name" default:"John Doe"`
	Age      int     `json:"age" default:"30"`
	Score    float64 `json:"score" default:"95.5"`
	Status   string  `json:"status" enum:"active,inactive,pending" default:"active"`
	Verified bool    `json:"verified" default:"true"`
}

func askDefaults(call *server.Call) (string, error) {
	user, action, err := server.ElicitForm[defaultsForm](call, "user", "Please check what is filled in")
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("Elicitation completed: action=%s, content=%+v", action, user), nil
}

// enumsForm has a choice of each kind: with and without titles, of one and of several.
const enumsForm = `{
  "type": "object",
  "properties": {
    "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
    "titledSingle": {"type": "string", "oneOf": [
      {"const": "value1", "title": "First Option"},
      {"const": "value2", "title": "Second Option"},
      {"const": "value3", "title": "Third Option"}
    ]},
    "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"],
      "enumNames": ["Option One", "Option Two", "Option Three"]},
    "untitledMulti": {"type": "array", "items": {"type": "string", "enum": ["option1", "option2", "option3"]}},
    "titledMulti": {"type": "array", "items": {"anyOf": [
      {"const": "value1", "title": "First Choice"},
      {"const": "value2", "title": "Second Choice"},
      {"const": "value3", "title": "Third Choice"}
    ]}}
  }
}`

func askEnums(call *server.Call) (string, error) {
	answer, err := call.Elicit("choices", &mcp.ElicitParams{
		Message: "Please choose", RequestedSchema: jsontext.Value(enumsForm),
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("Elicitation completed: action=%s, content=%s", answer.Action, answer.Content), nil
}

type contextForm struct {
	Context string `json:"context"`
}

// inputPrompt is a prompt that asks the user for context first.
func inputPrompt(srv *server.Server) {
	server.AddPrompt(srv, server.Prompt{
		Name: "test_input_required_result_prompt", Description: "A prompt that asks the user for context first.",
	}, func(_ context.Context, call *server.Call, _ map[string]string) (*mcp.GetPromptResult, error) {
		answer, _, err := server.ElicitForm[contextForm](call, "user_context", "What is it about?")
		if err != nil {
			return nil, err
		}
		return mcp.PromptText("Use this context: " + answer.Context), nil
	})
}
