package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
)

// checkLogging asks for the log messages of a tool, at several levels.
func checkLogging(t *testing.T, c *client) {
	const message = "notifications/message"
	run := func() {
		t.Helper()
		if r := c.call(t, "test_tool_with_logging", object{}); r.Result == nil || r.Result.IsError {
			t.Fatalf("test_tool_with_logging: %+v %+v", r.Result, r.Error)
		}
	}
	if c.modern() { // a legacy server may send messages of all levels before logging/setLevel
		c.forget("")
		if run(); c.forget(message) > 0 {
			t.Error("messages that nobody has asked for")
		}
	}
	c.must(t, "level", object{"level": "debug"})
	c.forget("")
	run()
	var got []string
	for range 3 {
		var params struct{ Level, Data string }
		if err := json.Unmarshal(c.awaitEvent(t, "notified", message).Params, &params); err != nil {
			t.Fatal(err)
		}
		got = append(got, params.Level+": "+params.Data)
	}
	want := []string{"info: Tool execution started", "info: Tool processing data", "info: Tool execution completed"}
	if !slices.Equal(got, want) {
		t.Errorf("the messages are %q, want %q", got, want)
	}
	c.must(t, "level", object{"level": "error"})
	c.soon(t, func() error {
		c.forget("")
		if run(); c.forget(message) > 0 {
			return errors.New("messages below the level that the client wants")
		}
		return nil
	})
}

// checkListChanged changes lists of the server and waits for the notifications. The client then
// gets the new lists, and not cached ones. Each replica has lists of its own, of which one is new.
func checkListChanged(t *testing.T, c *client) {
	c.must(t, "watch", nil)
	c.awaitStream(t)
	tool := func() (description string) {
		for _, tool := range c.must(t, "list", nil).Result.Tools {
			if tool.Name == "changing_tool" {
				description = tool.Description
			}
		}
		return description
	}
	prompt := func() (description string) {
		for _, prompt := range c.must(t, "prompts", nil).Result.Prompts {
			if prompt.Name == "changing_prompt" {
				description = prompt.Description
			}
		}
		return description
	}
	for what, description := range map[string]func() string{"tool": tool, "prompt": prompt} {
		before := description()
		c.trigger(t, what+"_change")
		c.awaitEvent(t, "notified", fmt.Sprintf("notifications/%ss/list_changed", what))
		if after := description(); before == "" || after == "" || after == before && c.server.behind == nil {
			t.Errorf("the %s was %q and is %q", what, before, after)
		}
	}
}

// trigger calls a tool that makes the server change.
func (c *client) trigger(t *testing.T, change string) {
	t.Helper()
	if r := c.call(t, "test_trigger_"+change, object{}); r.Result == nil || r.Result.IsError {
		t.Fatalf("test_trigger_%s: %+v %+v", change, r.Result, r.Error)
	}
}

// awaitStream waits until a legacy client has opened its stream for notifications over HTTP.
func (c *client) awaitStream(t *testing.T) {
	t.Helper()
	if c.modern() || c.transport != "http" {
		return
	}
	eventually(t, func() error {
		rep, err := c.server.requests()
		if err != nil {
			return err
		}
		for _, s := range rep.Sessions {
			if s.Client == c.name && s.Streaming {
				return nil
			}
		}
		return fmt.Errorf("the client does not listen: %+v", rep.Sessions)
	})
}

// watched is the resource whose change a tool reports.
const watched = "test://watched-resource"

// checkSubscribe subscribes to resources. The client must be notified of their changes, and of no
// others.
func checkSubscribe(t *testing.T, c *client) {
	const updated = "notifications/resources/updated"
	c.awaitStream(t)
	if !c.bridged {
		c.must(t, "subscribe", object{"uri": "test://static-text"})
		c.forget("")
		c.trigger(t, "resource_update") // of the other one
	}
	c.must(t, "subscribe", object{"uri": watched})
	if c.bridged { // mcp-remote answers at once, and then waits before it subscribes
		c.server.awaitSubscriptions(t, 2)
	}
	for range 3 {
		c.trigger(t, "resource_update")
		var params struct{ URI string }
		if err := json.Unmarshal(c.awaitEvent(t, "notified", updated).Params, &params); err != nil || params.URI != watched {
			t.Errorf("told of %q: %v", params.URI, err)
		}
	}
	if c.bridged {
		// It keeps a subscription that it should replace: over HTTP it would have to disconnect, but
		// it sends a message (dist/chunk-KJCT2FXL.js, line 32697).
		return
	}
	c.must(t, "unsubscribe", object{"uri": watched})
	if c.modern() { // closing a stream takes its time
		c.server.awaitSubscriptions(t, map[string]int{"gosdk": 2, "client": 2, "mcpgo": 1}[c.library])
	}
	c.soon(t, func() error {
		c.trigger(t, "resource_update")
		c.trigger(t, "tool_change")
		c.awaitEvent(t, "notified", "notifications/tools/list_changed") // which comes after all earlier notifications
		if n := c.forget(updated); n > 0 {
			return fmt.Errorf("told of %d other changes", n)
		}
		return nil
	})
}

// soon checks what must hold at once at the server that the client has told, and soon at its other replicas.
func (c *client) soon(t *testing.T, check func() error) {
	t.Helper()
	if c.server.behind != nil {
		eventually(t, check)
	} else if err := check(); err != nil {
		t.Error(err)
	}
}
