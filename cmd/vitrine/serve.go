package main

import (
	"context"
	"errors"
	"flag"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/service"
)

// serve runs the demonstration service until a signal ends it.
func serve(ctx context.Context, args []string) error {
	info := mcp.Implementation{
		Name: "vitrine", Version: service.ReadBuild().Version, Title: "Vitrine",
		Description: "Searches the text files below a folder.",
	}
	var (
		root   string
		hidden bool
	)
	return service.RunFunc(ctx, info, func(_ context.Context, env *service.Env) (*server.Server, error) {
		search, err := newSearcher(root, hidden)
		if err != nil {
			return nil, err
		}
		srv, err := env.NewServer(
			server.WithInstructions("Use search_text to find lines in the files below the root folder. " +
				"All paths are relative to that folder."))
		if err != nil {
			return nil, errors.Join(err, search.close())
		}
		addSearch(srv, search)
		addEcho(srv)
		addSleep(srv)
		return srv, nil
	}, service.WithArgs(args), service.WithCommand("vitrine serve"),
		service.WithFlags(func(fs *flag.FlagSet) {
			fs.StringVar(&root, "root", ".", "`folder` below which search_text searches")
			fs.BoolVar(&hidden, "hidden", false, "also search files and folders whose names begin with a dot, such as .env")
		}))
}
