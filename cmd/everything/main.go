// Command everything is the fixture server: the tools that the MCP conformance
// suite calls by name, and tools that misbehave on demand, for tests of clients
// and of Vitrine itself. It takes the same flags as vitrine serve.
package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/service"
)

// fixtures adds the tools in the order in which they are listed. The first one
// must take no arguments: the suite calls whatever comes first with {}.
var fixtures = slices.Concat(contentFixtures, progressFixtures, schemaFixtures, loadFixtures, reconnectionFixtures,
	inputFixtures, loggingFixtures, taskFixtures, []fixture{whereFixture(replicaName())}, changeFixtures)

func main() {
	info := mcp.Implementation{
		Name: "everything", Version: service.ReadBuild().Version, Title: "Everything",
		Description: "Fixtures for the MCP conformance suite, and tools that misbehave on demand.",
	}
	var conformance bool
	var watchedFile string
	var suite suiteAuthenticator
	err := service.RunFunc(context.Background(), info, func(_ context.Context, env *service.Env) (*server.Server, error) {
		how := access{scoped: len(env.Config.OAuth.Issuers) > 0}
		if conformance {
			how.suite = &suite
		}
		srv, err := newServer(env.NewServer, how)
		if err == nil && watchedFile != "" {
			readWatchedFrom(srv, watchedFile)
		}
		return srv, err
	}, service.WithCommand("everything"), service.WithListening(suite.listening),
		service.WithHTTPMiddleware(func(next http.Handler) http.Handler {
			if conformance {
				return suite.wrap(next)
			}
			return next
		}),
		service.WithFlags(func(fs *flag.FlagSet) {
			fs.BoolVar(&conformance, "conformance-scopes", false,
				"demand scopes of callers with one of the conformance suite's tokens (mcp-conformance-scope-low, mcp-conformance-scope-full)")
			fs.StringVar(&watchedFile, "watched-file", "", "a file with the content of "+watchedURI+", which several servers may have")
		}))
	if err != nil {
		fmt.Fprintln(os.Stderr, "everything:", err)
		os.Exit(1)
	}
}

// access says what callers need.
type access struct {
	// scoped demands scopes for the fixtures that are named so. It is set if it is known who calls.
	scoped bool
	// suite demands the scopes of the conformance suite, unless it is nil.
	suite *suiteAuthenticator
}

func newServer(make func(...server.Option) (*server.Server, error), how access) (*server.Server, error) {
	opts := []server.Option{
		server.WithUnaskedAnswers(), // the suite answers a question that it was not asked
		server.WithTasks(server.Tasks{PollInterval: 200 * time.Millisecond}),
		server.WithScopeHierarchy(demoScopes),
	}
	if how.suite != nil {
		opts = append(opts, server.WithAuthenticator(how.suite), server.WithPolicy(auth.PolicyFunc(conformanceScopes)))
	}
	srv, err := make(opts...)
	if err != nil {
		return nil, err
	}
	addResources(srv)
	for i, add := range slices.Concat(fixtures, prompts) {
		if i == len(contentFixtures) { // neither the first ones nor the last ones, which change
			addScoped(srv, how.scoped)
		}
		add(srv)
	}
	return srv, nil
}
