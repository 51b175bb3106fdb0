package server_test

import (
	"context"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/server/servertest"
)

// add registers a tool with the given types and nothing to do.
func add[In, Out any](t server.Tool) func(*server.Server) error {
	return func(s *server.Server) error {
		return server.TryAddTool(s, t, func(context.Context, *server.Call, In) (out Out, err error) { return out, nil })
	}
}

type none = struct{}

func TestRegistrationErrors(t *testing.T) {
	type recursive struct {
		Next []recursive `json:"next"`
	}
	type header struct {
		Region float64 `json:"region" mcpheader:"Region"`
	}
	type twice struct {
		A string `json:"a" mcpheader:"Region"`
		B string `json:"b" mcpheader:"REGION"`
	}
	object := func(members string) jsontext.Value { return jsontext.Value(`{"type":"object"` + members + `}`) }
	for _, tt := range []struct {
		name string
		add  func(*server.Server) error
		want string // part of the error
	}{
		{"no name", add[none, string](server.Tool{}), "must have 1 to 128 characters"},
		{"long name", add[none, string](server.Tool{Name: strings.Repeat("a", 129)}), "must have 1 to 128 characters"},
		{"space in the name", add[none, string](server.Tool{Name: "a b"}), `tool name "a b" may have letters`},
		{"umlaut in the name", add[none, string](server.Tool{Name: "grün"}), "may have letters"},
		{"slash in the name", add[none, string](server.Tool{Name: "a/b"}), "may have letters"},

		{"input is a string", add[string, string](server.Tool{Name: "x"}), `input schema of tool "x": schema: the root must have "type": "object"`},
		{"input is a slice", add[[]int, string](server.Tool{Name: "x"}), `"type": "object"`},
		{"input may be null", add[*struct{ A int }, string](server.Tool{Name: "x"}), `"type": "object"`},
		{"input is anything", add[any, string](server.Tool{Name: "x"}), `"type": "object"`},
		{"input has a channel", add[struct{ C chan int }, string](server.Tool{Name: "x"}), "has no JSON form"},
		{"input is recursive", add[recursive, string](server.Tool{Name: "x"}), "is recursive"},
		{"output has a func", add[none, struct{ F func() }](server.Tool{Name: "x"}), `output schema of tool "x"`},

		{"schema is no JSON", add[none, string](server.Tool{Name: "x", InputSchema: jsontext.Value(`{"type":`)}), "input schema of tool"},
		{"schema is empty", add[none, string](server.Tool{Name: "x", InputSchema: jsontext.Value{}}), "input schema of tool"},
		{"schema is no object", add[none, string](server.Tool{Name: "x", InputSchema: jsontext.Value(`true`)}), `"type": "object"`},
		{"schema of another type", add[none, string](server.Tool{Name: "x", InputSchema: jsontext.Value(`{"type":"array"}`)}), `"type": "object"`},
		{"schema breaks the metaschema", add[none, string](server.Tool{Name: "x", InputSchema: object(`,"required":7`)}), "is not a valid JSON Schema: /required"},
		{"schema with a bad pattern", add[none, string](server.Tool{Name: "x", InputSchema: object(`,"properties":{"a":{"pattern":"("}}`)}), "input schema of tool"},
		{"unknown dialect", add[none, string](server.Tool{Name: "x", InputSchema: object(`,"$schema":"https://example.com/mine"`)}), "dialect is not supported"},
		{"$ref to a URL", add[none, string](server.Tool{Name: "x", InputSchema: object(`,"properties":{"a":{"$ref":"https://example.com/a.json"}}`)}), "outside the document"},
		{"$ref to a file", add[none, string](server.Tool{Name: "x", InputSchema: object(`,"properties":{"a":{"$ref":"file:///etc/passwd"}}`)}), "outside the document"},
		{"relative $ref", add[none, string](server.Tool{Name: "x", InputSchema: object(`,"properties":{"a":{"$ref":"a.json"}}`)}), "outside the document"},
		{"dangling $ref", add[none, string](server.Tool{Name: "x", InputSchema: object(`,"$ref":"#/$defs/a"`)}), "input schema of tool"},
		{"bad output schema", add[none, string](server.Tool{Name: "x", OutputSchema: jsontext.Value(`{"type":"banana"}`)}), `output schema of tool "x"`},
		{"$ref in the output schema", add[none, string](server.Tool{Name: "x", OutputSchema: jsontext.Value(`{"$ref":"https://example.com/a.json"}`)}), "outside the document"},

		{"header on a number", add[header, string](server.Tool{Name: "x"}), "x-mcp-header"},
		{"header twice", add[twice, string](server.Tool{Name: "x"}), "names compare without case"},
		{"header is no token", add[none, string](server.Tool{Name: "x", InputSchema: object(`,"properties":{"a":{"type":"string","x-mcp-header":"a b"}}`)}), "RFC 9110 token"},
		{"header with a line break", add[none, string](server.Tool{Name: "x", InputSchema: object(`,"properties":{"a":{"type":"string","x-mcp-header":"a\r\nb"}}`)}), "RFC 9110 token"},
		{"header is empty", add[none, string](server.Tool{Name: "x", InputSchema: object(`,"properties":{"a":{"type":"string","x-mcp-header":""}}`)}), "RFC 9110 token"},
		{"header below items", add[none, string](server.Tool{Name: "x", InputSchema: object(`,"properties":{"a":{"items":{"type":"string","x-mcp-header":"A"}}}`)}), `reached through "properties" alone`},
		{"header on the root", add[none, string](server.Tool{Name: "x", InputSchema: object(`,"x-mcp-header":"A"`)}), `reached through "properties" alone`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv := newServer(t)
			server.AddTool(srv, server.Tool{Name: "taken"}, text("first"))
			require.ErrorContains(t, tt.add(srv), tt.want)

			// What was refused is not there, and the rest is as it was.
			client := servertest.Connect(t, srv)
			tools, err := client.ListTools(t.Context())
			require.NoError(t, err)
			require.Len(t, tools, 1)
			result, err := client.CallTool(t.Context(), "taken", nil)
			require.NoError(t, err)
			require.Equal(t, "first", result.Text())
		})
	}
}

// A given schema and the Go type must have the same properties.
func TestGivenSchemasMatchTheTypes(t *testing.T) {
	type order struct {
		Size string `json:"size"`
	}
	const both = `{"type":"object","properties":{"size":{"$ref":"#/$defs/size"}},"$defs":{"size":{"type":"string"}}}`
	const typo = `{"type":"object","properties":{"sise":{"type":"string"}}}`
	const number = `{"type":"object","properties":{"size":{"type":"integer"}}}`
	for _, tt := range []struct {
		name string
		add  func(*server.Server) error
		want string // part of the error, or "" for none
	}{
		{"input", add[order, string](server.Tool{Name: "x", InputSchema: jsontext.Value(both)}), ""},
		{"input typo", add[order, string](server.Tool{Name: "x", InputSchema: jsontext.Value(typo)}),
			`input schema of tool "x": schema and Go type differ: /size: the schema has no such property`},
		{"input type", add[order, string](server.Tool{Name: "x", InputSchema: jsontext.Value(number)}), "/size: the schema has integer"},
		{"input allowed", add[order, string](server.Tool{Name: "x", InputSchema: jsontext.Value(typo), AllowUnmatchedProperties: true}), ""},
		{"input type is never allowed", add[order, string](server.Tool{Name: "x", InputSchema: jsontext.Value(number), AllowUnmatchedProperties: true}), "/size"},
		{"input is a map", add[map[string]any, string](server.Tool{Name: "x", InputSchema: jsontext.Value(typo)}), ""},
		{"input is raw", add[jsontext.Value, string](server.Tool{Name: "x", InputSchema: jsontext.Value(typo)}), ""},

		{"output", add[none, order](server.Tool{Name: "x", OutputSchema: jsontext.Value(both)}), ""},
		{"output typo", add[none, order](server.Tool{Name: "x", OutputSchema: jsontext.Value(typo)}),
			`output schema of tool "x": schema and Go type differ: /size: the schema has no such property`},
		{"output type", add[none, string](server.Tool{Name: "x", OutputSchema: jsontext.Value(both)}), "/: the schema has object, the Go type string is string"},
		{"output allowed", add[none, order](server.Tool{Name: "x", OutputSchema: jsontext.Value(typo), AllowUnmatchedProperties: true}), ""},
		{"output is any", add[none, any](server.Tool{Name: "x", OutputSchema: jsontext.Value(typo)}), ""},
		{"output is a result", add[none, *mcp.CallToolResult](server.Tool{Name: "x", OutputSchema: jsontext.Value(typo)}), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.add(newServer(t))
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestAddToolPanics(t *testing.T) {
	require.PanicsWithError(t, `server: tool name "a b" may have letters, digits, _ . and - only`,
		func() { server.AddTool(newServer(t), server.Tool{Name: "a b"}, text("")) })
}

func TestNewNeedsNameAndVersion(t *testing.T) {
	for _, args := range [][2]string{{"", "1"}, {"name", ""}, {"", ""}} {
		_, err := server.TryNew(args[0], args[1])
		require.ErrorContains(t, err, "needs a name and a version")
		require.Panics(t, func() { server.New(args[0], args[1]) })
	}
}

// A given schema reaches the client with every keyword, in its order.
func TestGivenSchemasAreVerbatim(t *testing.T) {
	const input = `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","$defs":{"z":{"$anchor":"z","type":"string"}},` +
		`"properties":{"zebra":{"$ref":"#/$defs/z"},"ant":{"type":"integer","x-unknown":[1.50,1e3]}},` +
		`"allOf":[{"if":{"required":["ant"]},"then":{"minProperties":1},"else":true}],"additionalProperties":false}`
	const output = `{"anyOf":[{"type":"array"},{"type":"null"}]}`
	srv := newServer(t)
	server.AddTool(srv, server.Tool{Name: "x", InputSchema: jsontext.Value(input), OutputSchema: jsontext.Value(output)},
		func(context.Context, *server.Call, map[string]any) ([]int, error) { return []int{1}, nil })
	p := dial(t, srv)
	require.Contains(t, p.ask(modern(1, "tools/list", "")),
		`{"name":"x","inputSchema":`+input+`,"outputSchema":`+output+`}`)
}

func TestListedToolIsComplete(t *testing.T) {
	type in struct {
		Region string   `json:"region" mcpheader:"Region" jsonschema:"where"`
		Limit  *int8    `json:"limit,omitempty"`
		Tags   []string `json:"tags,omitzero"`
	}
	type out struct {
		Count int `json:"count"`
	}
	yes := true
	srv := newServer(t)
	server.AddTool(srv, server.Tool{
		Name: "z.Tool-1_x", Title: "Zed", Description: "does", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: &yes},
		Icons: []mcp.Icon{{Src: "data:,"}}, Meta: mcp.Meta{"example.com/k": 1},
	}, func(context.Context, *server.Call, in) (out, error) { return out{}, nil })
	server.AddTool(srv, server.Tool{Name: "a"}, text(""))
	p := dial(t, srv)
	require.JSONEq(t, result(1, `"ttlMs":0,"cacheScope":"public",`+serverMeta+`,"tools":[
		{"name":"z.Tool-1_x","title":"Zed","description":"does","annotations":{"readOnlyHint":true},
		 "icons":[{"src":"data:,"}],"_meta":{"example.com/k":1},
		 "inputSchema":{"type":"object","required":["region"],"additionalProperties":false,"properties":{
			"region":{"type":"string","description":"where","x-mcp-header":"Region"},
			"limit":{"type":["null","integer"],"minimum":-128,"maximum":127},
			"tags":{"type":"array","items":{"type":"string"}}}},
		 "outputSchema":{"type":"object","required":["count"],"additionalProperties":false,"properties":{"count":{"type":"integer"}}}},
		{"name":"a","inputSchema":{"type":"object","additionalProperties":false}}]`),
		p.ask(modern(1, "tools/list", "")))
}

// Tools are added and removed while clients are served. A list that a client has read does not
// change.
func TestToolsChangeAtRunTime(t *testing.T) {
	srv := newServer(t)
	for _, name := range []string{"c", "a", "b"} {
		server.AddTool(srv, server.Tool{Name: name}, text(name))
	}
	client := servertest.Connect(t, srv)
	names := func() (names []string) {
		tools, err := client.ListTools(t.Context())
		require.NoError(t, err)
		for _, tool := range tools {
			names = append(names, tool.Name)
		}
		return names
	}
	require.Equal(t, []string{"c", "a", "b"}, names(), "in the order of registration")
	srv.RemoveTools("a", "never there")
	require.Equal(t, []string{"c", "b"}, names())
	_, err := client.CallTool(t.Context(), "a", nil)
	require.Equal(t, mcp.NewError(mcp.CodeInvalidParams, `there is no tool "a"`), err)
	server.AddTool(srv, server.Tool{Name: "a"}, text("new"))
	require.Equal(t, []string{"c", "b", "a"}, names())
	result, err := client.CallTool(t.Context(), "a", nil)
	require.NoError(t, err)
	require.Equal(t, "new", result.Text())
}
