package server_test

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/server/servertest"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

type findIn struct {
	Query string `json:"query" jsonschema:"what to look for" minLength:"2"`
	Sort  string `json:"sort" enum:"date,relevance" default:"date"`
	Limit int    `json:"limit" minimum:"1" maximum:"50" default:"10"`
}

// Keywords of JSON Schema are struct tags. Clients see them in the schema, arguments are
// held to them, and what is missing has its default.
func ExampleAddTool() {
	srv := server.New("library", "1.0.0", server.WithTelemetry(telemetry.Disabled()))
	server.AddTool(srv, server.Tool{Name: "find", Description: "Find books"},
		func(_ context.Context, _ *server.Call, in findIn) (string, error) {
			return fmt.Sprintf("the %d first by %s for %q", in.Limit, in.Sort, in.Query), nil
		})

	t := newExampleT() // a test passes its own
	defer t.end()
	client := servertest.Connect(t, srv)
	for _, args := range []map[string]any{{"query": "go"}, {"query": "g", "sort": "size", "limit": 100}} {
		result, err := client.CallTool(context.Background(), "find", args)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(result.Text())
	}

	// Output:
	// the 10 first by date for "go"
	// The arguments of find are not valid:
	// - /limit: must be at most 50
	// - /query: must have at least 2 characters, has 1
	// - /sort: must be one of "date", "relevance"
}

// A tool that is added again takes the place of the one with its name, while clients are
// served.
func ExampleAddTool_again() {
	srv := server.New("greeter", "1.0.0", server.WithTelemetry(telemetry.Disabled()))
	greet := func(greeting string) {
		server.AddTool(srv, server.Tool{Name: "greet", Description: "Say hello"},
			func(context.Context, *server.Call, struct{}) (string, error) { return greeting, nil })
	}
	greet("Hello")
	server.AddTool(srv, server.Tool{Name: "part", Description: "Say goodbye"},
		func(context.Context, *server.Call, struct{}) (string, error) { return "Bye", nil })

	t := newExampleT() // a test passes its own
	defer t.end()
	client := servertest.Connect(t, srv)
	for _, greeting := range []string{"Hello", "Grüezi"} {
		greet(greeting) // the list shows what it did before: nobody is told
		tools, err := client.ListTools(context.Background())
		if err != nil {
			fmt.Println(err)
			return
		}
		result, err := client.CallTool(context.Background(), tools[0].Name, nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(tools[0].Name, tools[1].Name, result.Text())
	}

	// Output:
	// greet part Hello
	// greet part Grüezi
}

// A schema that is written by hand reaches clients as it is, and is compared with the Go
// type: what only one of them has is a mistake.
func ExampleTryAddTool() {
	const byHand = `{
		"type": "object",
		"properties": {"from": {"$ref": "#/$defs/city"}, "too": {"$ref": "#/$defs/city"}},
		"required": ["from"],
		"$defs": {"city": {"type": "string", "minLength": 2}}
	}`
	type trip struct {
		From string `json:"from"`
		To   string `json:"to"`
	}
	book := func(_ context.Context, _ *server.Call, in trip) (string, error) { return in.From + " to " + in.To, nil }

	srv := server.New("travel", "1.0.0", server.WithTelemetry(telemetry.Disabled()))
	tool := server.Tool{Name: "book", InputSchema: jsontext.Value(byHand)}
	fmt.Println(server.TryAddTool(srv, tool, book))
	tool.AllowUnmatchedProperties = true
	fmt.Println(server.TryAddTool(srv, tool, book))

	// Output:
	// server: input schema of tool "book": schema and Go type differ: /to: the schema has no such property, the Go type server_test.trip has the field To: add it to the schema, or exclude the field (json:"-"); /too: the schema has the property, the Go type server_test.trip has no field for it: add one, or take the property out of the schema
	// <nil>
}
