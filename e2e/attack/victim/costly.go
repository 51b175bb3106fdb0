package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
)

// treeSchema is recursive through two alternatives: a validator that remembers nothing visits a
// value of depth n 2^n times.
const treeSchema = `{
  "$defs": {
    "node": {"%[1]s": [
      {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}, "kind": {"const": "a"}}, "required": ["next"]},
      {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}, "kind": {"const": "b"}}, "required": ["next"]},
      {"type": "string"}
    ]}
  },
  "type": "object",
  "properties": {"tree": {"$ref": "#/$defs/node"}},
  "required": ["tree"]
}`

const uniqueSchema = `{
  "type": "object",
  "properties": {"values": {"type": "array", "uniqueItems": true}},
  "required": ["values"]
}`

type treeInput struct {
	Tree jsontext.Value `json:"tree"`
}

type wordsInput struct {
	Words []string `json:"words"`
}

type numbersInput struct {
	Numbers []int64 `json:"numbers"`
}

type countsInput struct {
	Counts map[string]int    `json:"counts,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
}

type measuresInput struct {
	Measures []float64 `json:"measures"`
}

type anythingInput struct {
	Anything any `json:"anything"`
}

// A rowsInput takes much more memory than the text of its rows, if they have no members.
type rowsInput struct {
	Rows []struct {
		Name  string   `json:"name,omitempty"`
		Title string   `json:"title,omitempty"`
		Owner string   `json:"owner,omitempty"`
		Place string   `json:"place,omitempty"`
		Tags  []string `json:"tags,omitempty"`
		Links []string `json:"links,omitempty"`
		Price float64  `json:"price,omitempty"`
		Count int      `json:"count,omitempty"`
	} `json:"rows"`
}

type heldInput struct {
	Anything any   `json:"anything"`
	MS       int64 `json:"ms"`
}

type valuesInput struct {
	Values jsontext.Value `json:"values"` // as it came, so that the handler adds no cost of its own
}

type sizeInput struct {
	Bytes int `json:"bytes"`
}

type chatterInput struct {
	Messages int `json:"messages"`
	Bytes    int `json:"bytes"`
}

// addCostlyTools adds tools whose cost the caller chooses.
func addCostlyTools(srv *server.Server) {
	for _, keyword := range []string{"anyOf", "oneOf"} {
		server.AddTool(srv, server.Tool{Name: "tree_" + keyword, InputSchema: jsontext.Value(fmt.Sprintf(treeSchema, keyword))},
			func(context.Context, *server.Call, treeInput) (string, error) { return "valid", nil })
	}
	server.AddTool(srv, server.Tool{Name: "roots"}, func(_ context.Context, call *server.Call, _ none) (string, error) {
		roots, err := call.Roots("roots")
		return fmt.Sprint(len(roots)), err
	})
	server.AddTool(srv, server.Tool{Name: "sample"}, func(_ context.Context, call *server.Call, _ none) (string, error) {
		message := mcp.SamplingMessage{Role: mcp.RoleUser, Content: mcp.ContentBlocks{&mcp.TextContent{Text: "Why?"}}}
		answer, err := call.Sample("sample", &mcp.CreateMessageParams{MaxTokens: 9, Messages: []mcp.SamplingMessage{message}})
		if err != nil {
			return "", err
		}
		return fmt.Sprint(len(answer.Content)), nil
	})
	server.AddTool(srv, server.Tool{Name: "words"}, func(_ context.Context, _ *server.Call, in wordsInput) (string, error) {
		return fmt.Sprint(len(in.Words)), nil
	})
	server.AddTool(srv, server.Tool{Name: "numbers"}, func(_ context.Context, _ *server.Call, in numbersInput) (string, error) {
		return fmt.Sprint(len(in.Numbers)), nil
	})
	server.AddTool(srv, server.Tool{Name: "counts"}, func(_ context.Context, _ *server.Call, in countsInput) (string, error) {
		return fmt.Sprint(len(in.Counts) + len(in.Labels)), nil
	})
	server.AddTool(srv, server.Tool{Name: "measures"}, func(_ context.Context, _ *server.Call, in measuresInput) (string, error) {
		return fmt.Sprint(len(in.Measures)), nil
	})
	server.AddTool(srv, server.Tool{Name: "anything"}, func(context.Context, *server.Call, anythingInput) (string, error) {
		return "something", nil
	})
	server.AddTool(srv, server.Tool{Name: "hold"}, func(ctx context.Context, _ *server.Call, in heldInput) (string, error) {
		select {
		case <-time.After(time.Duration(in.MS) * time.Millisecond):
		case <-ctx.Done():
		}
		return fmt.Sprintf("%.10v", in.Anything), nil
	})
	server.AddTool(srv, server.Tool{Name: "rows"}, func(_ context.Context, _ *server.Call, in rowsInput) (string, error) {
		return fmt.Sprint(len(in.Rows)), nil
	})
	server.AddTool(srv, server.Tool{Name: "unique", InputSchema: jsontext.Value(uniqueSchema)},
		func(_ context.Context, _ *server.Call, in valuesInput) (string, error) {
			return fmt.Sprint(len(in.Values)), nil
		})
	server.AddTool(srv, server.Tool{Name: "big"}, func(_ context.Context, _ *server.Call, in sizeInput) (string, error) {
		return strings.Repeat("x", min(max(in.Bytes, 0), 64<<20)), nil
	})
	server.AddTool(srv, server.Tool{Name: "chatter"}, func(_ context.Context, call *server.Call, in chatterInput) (string, error) {
		text := strings.Repeat("x", min(max(in.Bytes, 0), 1<<20))
		for range in.Messages {
			if err := call.Log(mcp.LogError, text); err != nil {
				return "", err
			}
		}
		return "said", nil
	})
}

// addTemplates adds five templates of five bounded variables each. Only the last one has the end
// that a URI may have.
func addTemplates(srv *server.Server) {
	for i := range 5 {
		server.AddResourceTemplate(srv, server.ResourceTemplate{
			URITemplate: fmt.Sprintf("bounded://{a:100}{b:100}{c:100}{d:100}{e:100}/%d", i), Name: fmt.Sprint("bounded-", i),
		}, func(_ context.Context, _ *server.Call, uri string, _ map[string]string) (string, error) {
			return uri, nil
		})
	}
}
