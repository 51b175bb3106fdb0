package server_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/server/servertest"
)

// toolErrorOf is the members of a tool error.
func toolErrorOf(text string) string {
	return fmt.Sprintf(`"content":[{"type":"text","text":%q}],"isError":true,`, text) + serverMeta
}

func TestArguments(t *testing.T) {
	type in struct {
		City  string    `json:"city"`
		Days  int8      `json:"days,omitzero"`
		Since time.Time `json:"since,omitzero"`
		Units struct {
			Metric bool `json:"metric"`
		} `json:"units,omitzero"`
		Tags []string `json:"tags,omitempty"`
	}
	srv := newServer(t)
	server.AddTool(srv, server.Tool{Name: "typed"}, func(_ context.Context, _ *server.Call, in in) (string, error) {
		return fmt.Sprintf("%s %d %v %v", in.City, in.Days, in.Units.Metric, in.Tags), nil
	})
	server.AddTool(srv, server.Tool{Name: "loose", InputSchema: jsontext.Value(`{"type":"object","properties":{"n":{"minimum":3}}}`)},
		func(_ context.Context, _ *server.Call, in map[string]any) (string, error) { return fmt.Sprint(in), nil })
	faults := func(tool, lines string) string {
		return result(1, toolErrorOf("The arguments of "+tool+" are not valid:"+lines))
	}
	ok := func(text string) string {
		return result(1, `"content":[{"type":"text","text":"`+text+`"}],`+serverMeta)
	}
	invalid := func(message string) string { return failure(1, -32602, message) }
	for _, tt := range []struct{ name, params, want string }{
		{"all", call("typed", `{"city":"Bern","days":3,"units":{"metric":true},"tags":["a","b"]}`), ok("Bern 3 true [a b]")},
		{"few", call("typed", `{"city":""}`), ok(" 0 false []")},
		{"an integer may have a fraction of zero", call("typed", `{"city":"B","days":2.0}`), ok("B 2 false []")},
		{"every fault at once", call("typed", `{"days":300,"since":"yesterday","units":{"metric":1,"x":0},"tags":[1,"a",null],"town":"B"}`),
			faults("typed", "\n- missing required property \"city\"\n- unknown property \"town\""+
				"\n- /days: must be at most 127\n- /since: must be a valid date-time\n- /tags/0: must be a string, got number"+
				"\n- /tags/2: must be a string, got null\n- /units: unknown property \"x\"\n- /units/metric: must be a boolean, got number")},
		{"names are case-sensitive", call("typed", `{"City":"B"}`),
			faults("typed", "\n- unknown property \"City\"\n- missing required property \"city\"")},
		{"given schema", call("loose", `{"n":1}`), faults("loose", "\n- /n: must be at least 3")},
		{"given schema, more than it knows", call("loose", `{"n":4,"m":[]}`), ok("map[m:[] n:4]")},

		{"none, and some are required", `"name":"typed"`, faults("typed", "\n- missing required property \"city\"")},
		{"none", `"name":"loose"`, ok("map[]")},
		{"of a wrong type", `"name":"loose","arguments":[1]`, invalid("params.arguments must be an object")},
		{"null", `"name":"loose","arguments":null`, invalid("params.arguments must be an object")},
		{"unknown tool", call("nope", `{}`), invalid(`there is no tool "nope"`)},
		{"no tool", `"arguments":{}`, invalid("params.name is missing")},
		{"tool of a wrong type", `"name":7`, invalid("params.name is missing")},
		{"empty name", `"name":""`, invalid(`there is no tool ""`)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := dial(t, srv).ask(modern(1, "tools/call", tt.params))
			require.JSONEq(t, tt.want, got)
		})
	}
}

func TestOutputs(t *testing.T) {
	type point struct {
		X int `json:"x"`
		Y int `json:"y,omitzero"`
	}
	srv := newServer(t)
	server.AddTool(srv, server.Tool{Name: "string"}, text("plain <text>\n"))
	server.AddTool(srv, server.Tool{Name: "struct"},
		func(context.Context, *server.Call, none) (point, error) { return point{X: 1}, nil })
	server.AddTool(srv, server.Tool{Name: "pointer"},
		func(context.Context, *server.Call, none) (*point, error) { return &point{X: 1, Y: 2}, nil })
	server.AddTool(srv, server.Tool{Name: "nil"},
		func(context.Context, *server.Call, none) (*point, error) { return nil, nil })
	server.AddTool(srv, server.Tool{Name: "slice"},
		func(context.Context, *server.Call, none) ([]point, error) { return []point{{X: 1}, {}}, nil })
	server.AddTool(srv, server.Tool{Name: "empty"},
		func(context.Context, *server.Call, none) ([]string, error) { return nil, nil })
	server.AddTool(srv, server.Tool{Name: "map"},
		func(context.Context, *server.Call, none) (map[string]int, error) {
			return map[string]int{"b": 1, "a": 2}, nil
		})
	server.AddTool(srv, server.Tool{Name: "number"},
		func(context.Context, *server.Call, none) (float64, error) { return 0.5, nil })
	server.AddTool(srv, server.Tool{Name: "any"},
		func(context.Context, *server.Call, none) (any, error) { return []any{1, nil}, nil })
	server.AddTool(srv, server.Tool{Name: "bytes"},
		func(context.Context, *server.Call, none) (struct{ S string }, error) {
			return struct{ S string }{"\xff"}, nil
		})
	server.AddTool(srv, server.Tool{Name: "checked", OutputSchema: jsontext.Value(`{"type":"string","minLength":2}`)}, text("ok"))
	server.AddTool(srv, server.Tool{Name: "whole"},
		func(context.Context, *server.Call, none) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{
				Content: []mcp.Content{
					&mcp.TextContent{Text: "a", ContentMeta: mcp.ContentMeta{Annotations: &mcp.Annotations{Audience: []string{"user"}}}},
					&mcp.ImageContent{Data: []byte{0, 1}, MIMEType: "image/png"},
					&mcp.AudioContent{MIMEType: "audio/wav"},
					&mcp.ResourceLink{URI: "file:///a", Name: "a", Size: 3},
					&mcp.EmbeddedResource{Resource: mcp.ResourceContents{URI: "x:y", Blob: []byte{}}},
					&mcp.EmbeddedResource{Resource: mcp.ResourceContents{URI: "x:z"}},
				},
				StructuredContent: map[string]int{"n": 1},
				ResultMeta:        mcp.ResultMeta{Meta: mcp.Meta{"example.com/k": "v"}},
			}, nil
		})
	server.AddTool(srv, server.Tool{Name: "nothing"},
		func(context.Context, *server.Call, none) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{}, nil
		})

	both := func(text, structured string) string {
		return fmt.Sprintf(`"content":[{"type":"text","text":%q}],"structuredContent":%s`, text, structured)
	}
	for _, tt := range []struct{ tool, want string }{
		{"string", `"content":[{"type":"text","text":"plain <text>\n"}]`},
		{"struct", both(`{"x":1}`, `{"x":1}`)},
		{"pointer", both(`{"x":1,"y":2}`, `{"x":1,"y":2}`)},
		{"nil", both(`null`, `null`)},
		{"slice", both(`[{"x":1},{"x":0}]`, `[{"x":1},{"x":0}]`)},
		{"empty", both(`[]`, `[]`)},
		{"map", both(`{"a":2,"b":1}`, `{"a":2,"b":1}`)},
		{"number", both(`0.5`, `0.5`)},
		{"any", both(`[1,null]`, `[1,null]`)},
		{"bytes", both(`{"S":"`+"\ufffd"+`"}`, `{"S":"`+"\ufffd"+`"}`)},
		{"checked", both(`"ok"`, `"ok"`)},
		{"nothing", `"content":[]`},
	} {
		t.Run(tt.tool, func(t *testing.T) {
			p := dial(t, srv)
			require.JSONEq(t, result(1, tt.want+`,`+serverMeta), p.ask(modern(1, "tools/call", call(tt.tool, `{}`))))
		})
	}
	t.Run("whole", func(t *testing.T) {
		require.JSONEq(t, result(1, `"resultType":"complete","structuredContent":{"n":1},
			"_meta":{"example.com/k":"v","io.modelcontextprotocol/serverInfo":{"name":"test","version":"1"}},
			"content":[{"type":"text","text":"a","annotations":{"audience":["user"]}},
			{"type":"image","data":"AAE=","mimeType":"image/png"},{"type":"audio","data":"","mimeType":"audio/wav"},
			{"type":"resource_link","uri":"file:///a","name":"a","size":3},
			{"type":"resource","resource":{"uri":"x:y","blob":""}},
			{"type":"resource","resource":{"uri":"x:z","text":""}}]`),
			dial(t, srv).ask(modern(1, "tools/call", call("whole", `{}`))))
	})
}

// A result that a handler keeps and returns again is not changed by the server.
func TestSharedResultIsNotChanged(t *testing.T) {
	shared := &mcp.CallToolResult{ResultMeta: mcp.ResultMeta{Meta: mcp.Meta{"k": "v"}}}
	srv := newServer(t)
	server.AddTool(srv, server.Tool{Name: "x"},
		func(context.Context, *server.Call, none) (*mcp.CallToolResult, error) { return shared, nil })
	p := dial(t, srv)
	first := p.ask(modern(1, "tools/call", call("x", `{}`)))
	require.Equal(t, first, p.ask(modern(1, "tools/call", call("x", `{}`))))
	require.Equal(t, mcp.Meta{"k": "v"}, shared.Meta)
	p.initialize("2025-11-25")
	require.JSONEq(t, result(1, `"content":[],"_meta":{"k":"v"}`), p.ask(legacy(1, "tools/call", call("x", `{}`))))
}

// Output that breaks a schema, or cannot be encoded, is the server's fault. The client learns no
// more than that, and the log has the reason.
func TestBadOutput(t *testing.T) {
	const schema = `{"type":"object","properties":{"n":{"type":"integer","minimum":10}},"required":["n"]}`
	logs := &logRecorder{}
	srv := newServer(t, server.WithLogger(slog.New(logs)))
	server.AddTool(srv, server.Tool{Name: "breaks", OutputSchema: jsontext.Value(schema)},
		func(context.Context, *server.Call, none) (map[string]int, error) { return map[string]int{"n": 3}, nil })
	server.AddTool(srv, server.Tool{Name: "whole", OutputSchema: jsontext.Value(schema)},
		func(context.Context, *server.Call, none) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{StructuredContent: map[string]string{"m": "x"}}, nil
		})
	server.AddTool(srv, server.Tool{Name: "missing", OutputSchema: jsontext.Value(schema)},
		func(context.Context, *server.Call, none) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{}, nil
		})
	server.AddTool(srv, server.Tool{Name: "nil"},
		func(context.Context, *server.Call, none) (*mcp.CallToolResult, error) { return nil, nil })
	server.AddTool(srv, server.Tool{Name: "nan"},
		func(context.Context, *server.Call, none) (float64, error) { return math.NaN(), nil })
	for tool, want := range map[string]string{
		"breaks":  "the output breaks the tool's output schema: /n: must be at least 10",
		"whole":   `the output breaks the tool's output schema: missing required property "n"`,
		"missing": "the output breaks the tool's output schema: must be an object, got null",
		"nil":     "the handler returned neither a result nor an error",
		"nan":     "encode the output",
	} {
		t.Run(tool, func(t *testing.T) {
			before := len(logs.find("handler.error"))
			require.JSONEq(t, failure(1, -32603, "internal error"),
				dial(t, srv).ask(modern(1, "tools/call", call(tool, `{}`))))
			records := logs.find("handler.error")[before:]
			require.Len(t, records, 1)
			require.Equal(t, slog.LevelError, records[0].level)
			require.Contains(t, records[0].attrs["error"], want)
			require.Equal(t, tool, records[0].attrs["target"])
		})
	}

	// A tool that reports a failure need not have the output it promised.
	server.AddTool(srv, server.Tool{Name: "failed", OutputSchema: jsontext.Value(schema)},
		func(context.Context, *server.Call, none) (*mcp.CallToolResult, error) {
			return mcp.ToolErrorResult("no luck"), nil
		})
	require.JSONEq(t, result(1, toolErrorOf("no luck")), dial(t, srv).ask(modern(1, "tools/call", call("failed", `{}`))))
}

func TestErrorsOfTools(t *testing.T) {
	plain := errors.New("the city is closed")
	rpc := mcp.NewError(-31000, "no quota").WithData(map[string]int{"left": 0})
	for _, tt := range []struct {
		name string
		err  error
		want string
	}{
		{"plain", plain, result(1, toolErrorOf("the tool failed"))},
		{"wrapped", fmt.Errorf("look up: %w", plain), result(1, toolErrorOf("the tool failed"))},
		{"for the caller", mcp.ToolErrorf("no city called %s", "X"), result(1, toolErrorOf(`no city called X`))},
		{"for the caller, wrapped", fmt.Errorf("secret: %w", mcp.ToolErrorf("no such city")), result(1, toolErrorOf("no such city"))},
		{"for the caller, twice", fmt.Errorf("a: %w", &mcp.ToolError{Text: "outer", Err: mcp.ToolErrorf("inner")}), result(1, toolErrorOf("outer"))},
		{"for the caller, around a secret", &mcp.ToolError{Text: "try again", Err: plain}, result(1, toolErrorOf("try again"))},
		{"for the caller, around the protocol", &mcp.ToolError{Text: "try again", Err: rpc}, result(1, toolErrorOf("try again"))},
		{"fault of the caller", mcp.CallerFault(plain), result(1, toolErrorOf("the tool failed"))},
		{"protocol", rpc, `{"jsonrpc":"2.0","id":1,"error":{"code":-31000,"message":"no quota","data":{"left":0}}}`},
		{"protocol, wrapped", fmt.Errorf("secret: %w", rpc),
			`{"jsonrpc":"2.0","id":1,"error":{"code":-31000,"message":"no quota","data":{"left":0}}}`},
		{"protocol, joined", errors.Join(plain, rpc),
			`{"jsonrpc":"2.0","id":1,"error":{"code":-31000,"message":"no quota","data":{"left":0}}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv := newServer(t)
			server.AddTool(srv, server.Tool{Name: "x"},
				func(context.Context, *server.Call, none) (string, error) { return "ignored", tt.err })
			require.JSONEq(t, tt.want, dial(t, srv).ask(modern(1, "tools/call", call("x", `{}`))))
		})
	}
}

// badJSON panics when it is encoded.
type badJSON struct{}

func (badJSON) MarshalJSON() ([]byte, error) { panic("secret in the marshaler") }

// A panic ends its own call only.
func TestPanicsAreContained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logs := &logRecorder{}
		srv := newServer(t, server.WithLogger(slog.New(logs)))
		release := make(chan struct{})
		server.AddTool(srv, server.Tool{Name: "panic"},
			func(context.Context, *server.Call, none) (string, error) { panic("secret") })
		server.AddTool(srv, server.Tool{Name: "index"},
			func(context.Context, *server.Call, none) (string, error) {
				var list []string
				return list[len(list)], nil
			})
		server.AddTool(srv, server.Tool{Name: "marshaler"},
			func(context.Context, *server.Call, none) (*mcp.CallToolResult, error) {
				return &mcp.CallToolResult{StructuredContent: badJSON{}}, nil
			})
		server.AddTool(srv, server.Tool{Name: "wait"},
			func(context.Context, *server.Call, none) (string, error) { <-release; return "done", nil })
		p := dial(t, srv)
		p.send(modern("w", "tools/call", call("wait", `{}`)))
		for _, tool := range []string{"panic", "index", "marshaler"} {
			answer := p.ask(modern(1, "tools/call", call(tool, `{}`)))
			require.Contains(t, answer, `"error":{"code":-32603,"message":"internal error`)
			require.NotContains(t, answer, "secret")
		}
		require.Len(t, logs.find("handler.panic"), 3)
		require.Equal(t, "secret", logs.find("handler.panic")[0].attrs["panic"])
		require.Contains(t, logs.find("handler.panic")[0].attrs["stack"], "tool_test.go")
		close(release)
		require.JSONEq(t, result("w", `"content":[{"type":"text","text":"done"}],`+serverMeta), p.recv())
	})
}

func TestGoexitSettles(t *testing.T) {
	srv := newServer(t)
	server.AddTool(srv, server.Tool{Name: "goexit"}, func(context.Context, *server.Call, none) (string, error) {
		(&testing.T{}).SkipNow() // runtime.Goexit, as t.FailNow in a handler
		return "", nil
	})
	require.JSONEq(t, failure(1, -32603, "internal error"), dial(t, srv).ask(modern(1, "tools/call", call("goexit", `{}`))))
}

// The in-memory client sees what the raw frames say.
func TestClientSeesErrors(t *testing.T) {
	srv := newServer(t)
	server.AddTool(srv, server.Tool{Name: "x"},
		func(context.Context, *server.Call, none) (string, error) { return "", mcp.ToolErrorf("mend me") })
	client := servertest.Connect(t, srv)
	result, err := client.CallTool(t.Context(), "x", nil)
	require.NoError(t, err)
	require.True(t, result.IsError)
	require.Equal(t, "mend me", result.Text())
}

// A block of content that is a nil pointer is a mistake of the handler, and no end of the process.
func TestNilContentEndsItsOwnCallOnly(t *testing.T) {
	for name, content := range map[string]mcp.Content{
		"text": (*mcp.TextContent)(nil), "image": (*mcp.ImageContent)(nil), "audio": (*mcp.AudioContent)(nil),
	} {
		srv := newServer(t)
		server.AddTool(srv, server.Tool{Name: name}, func(context.Context, *server.Call, none) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{content}}, nil
		})
		server.AddTool(srv, server.Tool{Name: "other"}, text("done"))
		p := dial(t, srv)
		require.Contains(t, p.ask(modern(1, "tools/call", call(name, `{}`))), `"id":1`)
		require.Contains(t, p.ask(modern(2, "tools/call", call("other", `{}`))), "done")
	}
}
