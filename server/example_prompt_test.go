package server_test

import (
	"context"
	"fmt"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/server/servertest"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

func ExampleAddPrompt() {
	srv := server.New("reviews", "1.0.0", server.WithTelemetry(telemetry.Disabled()))
	server.AddPrompt(srv, server.Prompt{
		Name:        "review",
		Description: "Review a change",
		Arguments: []server.PromptArgument{
			{Name: "diff", Description: "the change", Required: true},
			{Name: "tone", Complete: server.CompleteFrom("friendly", "frank", "formal")},
		},
	}, func(_ context.Context, _ *server.Call, args map[string]string) (*mcp.GetPromptResult, error) {
		return mcp.PromptText("Review this change. Be " + args["tone"] + ".\n" + args["diff"]), nil
	})

	t := newExampleT() // a test passes its own
	defer t.end()
	client := servertest.Connect(t, srv)
	tones, err := client.CompletePrompt(context.Background(), "review", "tone", "fr", nil)
	fmt.Println(tones.Values, err)
	prompt, err := client.GetPrompt(context.Background(), "review", map[string]string{"diff": "+ x", "tone": "frank"})
	fmt.Println(prompt.Messages[0].Content.(*mcp.TextContent).Text, err)
	_, err = client.GetPrompt(context.Background(), "review", nil)
	fmt.Println(err)

	// Output:
	// [friendly frank] <nil>
	// Review this change. Be frank.
	// + x <nil>
	// missing required arguments: "diff" (-32602)
}
