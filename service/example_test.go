package service_test

import (
	"context"
	"flag"
	"fmt"
	"io"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/service"
)

// A server without flags of its own: made first, then run. It serves until the process is
// told to end; here the context ends as soon as clients can connect.
func ExampleRun() {
	srv := server.New("weather", "1.2.0")
	server.AddTool(srv, server.Tool{Name: "forecast"}, func(_ context.Context, _ *server.Call, in struct {
		City string `json:"city"`
	}) (string, error) {
		return "Sunny in " + in.City, nil
	})

	ctx, stop := context.WithCancel(context.Background())
	err := service.Run(ctx, srv,
		service.WithArgs([]string{"--addr=127.0.0.1:0", "--admin-addr=off"}), service.WithStderr(io.Discard),
		service.WithListening(func(service.Endpoints) {
			fmt.Println("listening")
			stop()
		}))
	fmt.Println(err)
	// Output:
	// listening
	// <nil>
}

// A server that needs its flags when it is made. The variables begin with WEATHER_.
func ExampleRunFunc() {
	info := mcp.Implementation{Name: "weather", Version: "1.2.0", Description: "Forecasts for cities."}
	var region string
	build := func(_ context.Context, env *service.Env) (*server.Server, error) {
		srv, err := env.NewServer(server.WithInstructions("Cities of " + region + " only."))
		if err != nil {
			return nil, err
		}
		fmt.Println("region:", region)
		fmt.Println("depth:", srv.Limits().MaxDepth)
		return srv, nil
	}

	ctx, stop := context.WithCancel(context.Background())
	env := map[string]string{"WEATHER_REGION": "Iceland", "WEATHER_MAX_DEPTH": "16"}
	err := service.RunFunc(ctx, info, build,
		service.WithEnvPrefix("WEATHER"),
		service.WithFlags(func(fs *flag.FlagSet) {
			fs.StringVar(&region, "region", "Europe", "`name` of the region that is served")
		}),
		service.WithArgs([]string{"--addr=127.0.0.1:0", "--admin-addr=off"}), service.WithStderr(io.Discard),
		service.WithGetenv(func(name string) string { return env[name] }),
		service.WithListening(func(service.Endpoints) { stop() }))
	fmt.Println(err)
	// Output:
	// region: Iceland
	// depth: 16
	// <nil>
}
