package server_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/server/servertest"
)

type search struct {
	Query string   `json:"query" jsonschema:"what to look for" minLength:"2"`
	Sort  string   `json:"sort" enum:"date,relevance" default:"date"`
	Limit int      `json:"limit" minimum:"1" maximum:"50" default:"10"`
	Tags  []string `json:"tags,omitempty" enum:"news,blog" maxItems:"2"`
}

// Arguments must satisfy the tags of a tool's input. The handler gets the defaults of missing
// fields, and clients see both in the list.
func TestToolWithTags(t *testing.T) {
	srv := newServer(t)
	server.AddTool(srv, server.Tool{Name: "search"}, func(_ context.Context, _ *server.Call, in search) (string, error) {
		return fmt.Sprintf("%+v", in), nil
	})
	require.Contains(t, dial(t, srv).ask(modern(1, "tools/list", "")), `"inputSchema":{"type":"object","properties":{`+
		`"query":{"type":"string","description":"what to look for","minLength":2},`+
		`"sort":{"type":"string","default":"date","enum":["date","relevance"]},`+
		`"limit":{"type":"integer","default":10,"minimum":1,"maximum":50},`+
		`"tags":{"type":"array","items":{"type":"string","enum":["news","blog"]},"maxItems":2}},`+
		`"required":["query"],"additionalProperties":false}`)

	client := servertest.Connect(t, srv)
	for args, want := range map[string]string{
		`{"query":"go"}`: "{Query:go Sort:date Limit:10 Tags:[]}",
		`{"query":"go","limit":50,"tags":["news"]}`: "{Query:go Sort:date Limit:50 Tags:[news]}",
		`{"query":"go","sort":"relevance"}`:         "{Query:go Sort:relevance Limit:10 Tags:[]}",
		`{"query":"g"}`:                             "The arguments of search are not valid:\n- /query: must have at least 2 characters, has 1",
		`{"query":"go","sort":"name"}`:              "The arguments of search are not valid:\n- /sort: must be one of \"date\", \"relevance\"",
		`{"query":"go","limit":0}`:                  "The arguments of search are not valid:\n- /limit: must be at least 1",
		`{"query":"go","tags":["x"]}`:               "The arguments of search are not valid:\n- /tags/0: must be one of \"news\", \"blog\"",
	} {
		result, err := client.CallTool(t.Context(), "search", jsontext.Value(args))
		require.NoError(t, err)
		require.Equal(t, want, result.Text(), args)
	}
}

// An output that breaks a tag is a fault of the server.
func TestOutputWithTags(t *testing.T) {
	type out struct {
		State string `json:"state" enum:"open,closed" default:"open"`
	}
	srv := newServer(t)
	server.AddTool(srv, server.Tool{Name: "state"}, func(_ context.Context, _ *server.Call, in struct {
		Want string `json:"want"`
	}) (out, error) {
		return out{in.Want}, nil
	})
	p := dial(t, srv)
	require.Contains(t, p.ask(modern(1, "tools/list", "")), `"required":["state"]`)
	require.Contains(t, p.ask(modern(2, "tools/call", call("state", `{"want":"open"}`))), `"structuredContent":{"state":"open"}`)
	require.Contains(t, p.ask(modern(3, "tools/call", call("state", `{"want":"ajar"}`))), fmt.Sprint(mcp.CodeInternalError))
}

// The params of methods have the same tags.
func TestMethodWithTags(t *testing.T) {
	srv := newServer(t)
	type params struct {
		Limit int `json:"limit" maximum:"5" default:"3"`
	}
	type answer struct {
		Limit int `json:"limit"`
	}
	server.AddMethod(srv, server.Method{Name: "x/y"}, func(_ context.Context, _ *server.Call, p params) (answer, error) {
		return answer(p), nil
	})
	p := dial(t, srv)
	require.Contains(t, p.ask(modern(1, "x/y", "")), `"limit":3`)
	require.Contains(t, p.ask(modern(2, "x/y", `"limit":6`)), "/limit: must be at most 5")
}
