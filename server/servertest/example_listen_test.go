package servertest_test

import (
	"context"
	"fmt"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/server/servertest"
)

// A server notifies subscribers of changes: of registrations by itself, of the content of a
// resource when the program reports a change.
func ExampleClient_Listen() {
	t := newT()
	defer t.end()
	ctx := context.Background()
	srv := newWeather()
	const stations = "weather://stations"
	server.AddStaticResource(srv, server.Resource{URI: stations, Name: "stations"}, "Bern, Geneva")

	client := servertest.Connect(t, srv)
	changes, err := client.Listen(ctx, mcp.SubscriptionFilter{
		ToolsListChanged: true, ResourceSubscriptions: []string{stations},
	})
	if err != nil {
		t.Fatalf("listen: %v", err)
	}

	srv.RemoveTools("forecast")
	change, _ := changes.Next(ctx)
	fmt.Println(change.Method)

	srv.ResourceUpdated(stations)
	change, _ = changes.Next(ctx)
	fmt.Println(change.Method, change.URI)

	// Output:
	// notifications/tools/list_changed
	// notifications/resources/updated weather://stations
}
