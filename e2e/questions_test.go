package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// ask calls a tool that asks the client. The questions must have these methods.
func (c *client) ask(t *testing.T, tool string, arguments object, methods ...string) reply {
	t.Helper()
	c.forget("")
	r := c.call(t, tool, arguments)
	if r.Error != nil && len(methods) > 0 {
		t.Fatalf("%s: %+v", tool, r.Error)
	}
	for _, method := range methods {
		if method == roots && c.library == "gosdk" && c.modern() {
			continue // it answers by itself and does not report its questions
		}
		c.awaitEvent(t, "asked", method)
	}
	for _, e := range c.early {
		if e.Event == "asked" {
			t.Errorf("%s has also asked for %s", tool, e.Method)
		}
	}
	return r
}

// says checks the text of a tool's result.
func says(t *testing.T, r reply, parts ...string) {
	t.Helper()
	if r.Result == nil || r.Result.IsError {
		t.Fatalf("%+v %+v", r.Result, r.Error)
	}
	for _, part := range parts {
		if !strings.Contains(r.text(), part) {
			t.Errorf("the result is %q, want it to contain %q", r.text(), part)
		}
	}
}

// unconfirmed is a call that asks for a confirmation.
var unconfirmed = call(1, "test_input_required_result_request_state", object{}).
	with("io.modelcontextprotocol/clientCapabilities", object{"elicitation": object{}})

// confirmed returns that call with the answer to its question, and the state of that.
func confirmed(t *testing.T, asked answer) request {
	t.Helper()
	var state struct {
		Result struct{ ResultType, RequestState string }
	}
	if err := json.Unmarshal([]byte(asked.raw), &state); err != nil || state.Result.ResultType != "input_required" {
		t.Fatalf("the question: %s (%v)", asked.raw, err)
	}
	r := unconfirmed
	r.params = object{
		"name": unconfirmed.params["name"], "arguments": object{}, "requestState": state.Result.RequestState,
		"inputResponses": object{"confirm": object{"action": "accept", "content": object{"ok": true}}},
	}
	return r
}

const (
	elicits = "elicitation/create"
	samples = "sampling/createMessage"
	roots   = "roots/list"
)

func checkSampling(t *testing.T, c *client) {
	c.forget("")
	const prompt = "Is this a “test”?"
	r := c.call(t, "test_sampling", object{"prompt": prompt})
	if asked := c.awaitEvent(t, "asked", samples); !strings.Contains(string(asked.Params), prompt) || !strings.Contains(string(asked.Params), `"maxTokens":100`) {
		t.Errorf("asked with %s", asked.Params)
	}
	says(t, r, "This is a test response from the client")
	says(t, c.ask(t, "test_input_required_result_sampling", object{}, samples))
}

func checkElicitation(t *testing.T, c *client) {
	const message = "Please tell us “who” you are"
	elicit := func(answer object) reply {
		t.Helper()
		c.must(t, "answer", answer)
		c.forget("")
		r := c.call(t, "test_elicitation", object{"message": message})
		asked := string(c.awaitEvent(t, "asked", elicits).Params)
		for _, part := range []string{message, `"username"`, `"email"`, `"required"`} {
			if !strings.Contains(asked, part) {
				t.Errorf("asked with %s, want it to contain %s", asked, part)
			}
		}
		return r
	}
	says(t, elicit(object{"action": "accept", "content": object{"username": "testuser", "email": "test@example.com"}}), "accept", "testuser", "test@example.com")
	says(t, elicit(object{"action": "decline"}), "decline")
	says(t, elicit(object{"action": "cancel"}), "cancel")
}

// checkCancelAsking cancels a call that waits for the user. In the modern era no call waits: the
// server has answered with its question.
func checkCancelAsking(t *testing.T, c *client) {
	if c.modern() {
		return
	}
	before := c.server.metrics(t).sum("vitrine_requests_cancelled_total", "cause", c.cause)
	c.must(t, "answer", object{"action": "wait"})
	id := c.send(t, "call", object{"name": "test_elicitation", "arguments": object{"message": "Take your time"}})
	c.awaitEvent(t, "asked", elicits)
	c.must(t, "cancel", object{"call": id})
	if r, _ := c.await(t, id); r.Error == nil {
		t.Errorf("the cancelled call ended with %+v", r.Result)
	}
	if c.abandons() {
		c.abandoned++ // and will be woken at the end
	} else {
		eventually(t, func() error {
			if n := c.server.metrics(t).sum("vitrine_requests_cancelled_total", "cause", c.cause); n != before+1 {
				return fmt.Errorf("%v requests were cancelled by %s, and %v before", n, c.cause, before)
			}
			return nil
		})
		// mcp-go ignores the cancel (client/transport/stdio.go, line 730: a context that nothing
		// cancels), and go-sdk over HTTP has disconnected before it.
		if c.library != "mcpgo" && (c.library != "gosdk" || c.transport == "stdio") {
			c.awaitEvent(t, "relieved", elicits)
		}
	}
	c.must(t, "answer", object{"action": "accept", "content": object{}})
	checkEcho(t, c)
}

// checkRoots asks for the roots of the client. A modern go-sdk fails if the question comes
// without params, which it need not have (its mcp/protocol.go, line 121).
func checkRoots(t *testing.T, c *client) {
	const tool = "test_input_required_result_list_roots"
	says(t, c.ask(t, tool, object{}, roots), "file:///test/root")
	c.must(t, "roots", object{"roots": []object{{"uri": "file:///other"}}})
	says(t, c.ask(t, tool, object{}, roots), "file:///other")
}

// checkRounds calls tools that need several answers, one after the other and at the same time.
func checkRounds(t *testing.T, c *client) {
	c.must(t, "answer", object{"action": "accept", "content": object{"name": "Alice", "color": "blue", "context": "some context"}})
	says(t, c.ask(t, "test_input_required_result_elicitation", object{}, elicits), "Alice")
	says(t, c.ask(t, "test_input_required_result_multi_round", object{}, elicits, elicits), "Alice", "blue")
	c.forget("")
	r := c.must(t, "prompt", object{"name": "test_input_required_result_prompt"})
	c.awaitEvent(t, "asked", elicits)
	if m := r.Result.Messages; len(m) == 0 || !strings.Contains(m[0].Content.Text, "some context") {
		t.Errorf("test_input_required_result_prompt: %+v", m)
	}
	says(t, c.ask(t, "test_input_required_result_multiple_inputs", object{}, elicits, samples, roots))
}
