// Command everything is the fixture server: the tools that the MCP conformance
// suite calls by name, and tools that misbehave on demand, for tests of clients
// and of Vitrine itself. It takes the same flags as vitrine serve.
package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/service"
)

// fixtures adds the tools in the order in which they are listed. The first one
// must take no arguments: the suite calls whatever comes first with {}.
var fixtures = slices.Concat(contentFixtures, progressFixtures, schemaFixtures, loadFixtures, reconnectionFixtures,
	inputFixtures, loggingFixtures, taskFixtures, changeFixtures)

func main() {
	if err := service.Run(context.Background(), newServer(), service.WithCommand("everything")); err != nil {
		fmt.Fprintln(os.Stderr, "everything:", err)
		os.Exit(1)
	}
}

func newServer() *server.Server {
	srv := server.New("everything", service.ReadBuild().Version,
		server.WithTitle("Everything"),
		server.WithDescription("Fixtures for the MCP conformance suite, and tools that misbehave on demand."),
		server.WithUnaskedAnswers(), // the suite answers a question that it was not asked
		server.WithTasks(server.Tasks{PollInterval: 200 * time.Millisecond}))
	for _, add := range slices.Concat(fixtures, prompts) {
		add(srv)
	}
	addResources(srv)
	return srv
}
