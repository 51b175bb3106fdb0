package servers

import (
	"context"
	"net/http"
	"net/url"

	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/service"
)

// Service is the name of Vitrine as package service runs it without any settings.
const Service = "vitrine-service"

func serviceKinds() []Kind {
	const vitrine = "github.com/vitrine-mcp/vitrine"
	return []Kind{{Name: Service, Title: "Vitrine, default, run by package service", Module: vitrine, New: func(tools int) (Server, error) { return newService(tools) }}}
}

// newService returns, without options, what a program gets that calls server.New and service.Run.
func newService(tools int, opts ...server.Option) (Server, error) {
	srv, err := server.TryNew("bench", "1", opts...)
	if err != nil {
		return Server{}, err
	}
	addTools(srv, tools)
	return served(srv, Modern), nil
}

// served returns a server that package service runs, with its endpoint under path.
func served(srv *server.Server, path string) Server {
	return Server{Serve: func(ctx context.Context, others http.Handler, listening func(addr string) error) error {
		var failed error
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		err := service.Run(ctx, srv,
			service.WithArgs([]string{"--addr=127.0.0.1:0", "--admin-addr=127.0.0.1:0", "--path=" + path}),
			service.WithHTTPHandler("/", others),
			service.WithListening(func(endpoints service.Endpoints) {
				endpoint, err := url.Parse(endpoints.MCP)
				if err == nil {
					err = listening(endpoint.Host)
				}
				if err != nil {
					failed = err
					cancel()
				}
			}))
		if failed != nil {
			return failed
		}
		return err
	}}
}
