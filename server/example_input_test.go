package server_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/server/servertest"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

type booking struct {
	Seat string `json:"seat" enum:"window,aisle" default:"window"`
	Mail string `json:"mail,omitempty" format:"email" jsonschema:"where to send the ticket"`
}

// A tool that asks its user with a form. It does not know how the client is asked, nor
// in which era that speaks.
func ExampleElicitForm() {
	srv := server.New("trains", "1.0.0", server.WithTelemetry(telemetry.Disabled()))
	server.AddTool(srv, server.Tool{Name: "book", Description: "Book a seat"},
		func(_ context.Context, call *server.Call, in struct {
			Train string `json:"train"`
		}) (string, error) {
			b, action, err := server.ElicitForm[booking](call, "seat", "Which seat on the "+in.Train+"?")
			if err != nil {
				return "", err // the question is on its way; the handler will run again
			}
			if action != mcp.ElicitAccept {
				return "Nothing was booked.", nil
			}
			return "Booked: " + b.Seat, nil
		})

	callInBothEras(srv, "book", map[string]string{"train": "IC 8"}, func(q servertest.Question) any {
		return map[string]any{"action": "accept", "content": booking{Seat: "aisle"}}
	})

	// Output:
	// elicitation/create
	// Booked: aisle
	// elicitation/create
	// Booked: aisle
}

// Two questions in one round, and then a third. What was found out before a question
// is kept for the next run of the handler.
func ExampleCall_Elicit() {
	srv := server.New("files", "1.0.0", server.WithTelemetry(telemetry.Disabled()))
	server.AddTool(srv, server.Tool{Name: "tidy", Description: "Delete what is old"},
		func(_ context.Context, call *server.Call, _ none) (string, error) {
			roots, errRoots := call.Roots("roots")
			consent, errConsent := call.Elicit("consent", &mcp.ElicitParams{Message: "May I look at your files?"})
			if err := errors.Join(errRoots, errConsent); err != nil {
				return "", err
			}
			if consent.Action != mcp.ElicitAccept || len(roots) == 0 {
				return "Nothing was touched.", nil
			}
			var old int
			if found, err := call.Kept(&old); err != nil {
				return "", err
			} else if !found {
				old = 3 // after a long search, which is not done twice
				if err := call.Keep(old); err != nil {
					return "", err
				}
			}
			sure, err := call.Elicit("sure", &mcp.ElicitParams{
				Message:         fmt.Sprintf("Delete %d files in %s?", old, roots[0].URI),
				RequestedSchema: jsontext.Value(`{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"]}`),
			})
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("%d files, %s %s", old, sure.Action, sure.Content), nil
		})

	callInBothEras(srv, "tidy", nil, func(q servertest.Question) any {
		if q.Method == mcp.MethodRootsList {
			return mcp.ListRootsResult{Roots: []mcp.Root{{URI: "file:///home/ann"}}}
		}
		return mcp.ElicitResult{Action: mcp.ElicitAccept, Content: jsontext.Value(`{"ok":true}`)}
	})

	// Unordered output:
	// elicitation/create
	// roots/list
	// elicitation/create
	// 3 files, accept {"ok":true}
	// elicitation/create
	// roots/list
	// elicitation/create
	// 3 files, accept {"ok":true}
}

// callInBothEras calls a tool as a modern and as a legacy client, and prints what it is
// asked and what it is told.
func callInBothEras(srv *server.Server, tool string, args any, answer func(servertest.Question) any) {
	for _, version := range []mcp.Version{mcp.LatestVersion, mcp.LatestLegacyVersion} {
		t := newExampleT()
		opts := []servertest.Option{
			servertest.Capabilities(mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapability{}, Roots: &mcp.RootsCapability{}}),
			servertest.OnInput(func(_ context.Context, q servertest.Question) (any, error) {
				fmt.Println(q.Method)
				return answer(q), nil
			}),
		}
		if version != mcp.LatestVersion {
			opts = append(opts, servertest.Legacy(version))
		}
		result, err := servertest.Connect(t, srv, opts...).CallTool(context.Background(), tool, args)
		if err != nil {
			panic(err)
		}
		fmt.Println(result.Text())
		t.end()
	}
}
