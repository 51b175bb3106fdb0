package main

import (
	"context"
	"flag"

	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/service"
)

// serve runs the demonstration service until it is told to end.
func serve(ctx context.Context, args []string) error {
	srv := server.New("vitrine", service.ReadBuild().Version,
		server.WithTitle("Vitrine"),
		server.WithDescription("Searches the text files below a folder."),
		server.WithInstructions("Use search_text to find lines in the files below the root folder. "+
			"All paths are relative to that folder."))
	var root string
	addSearch(srv, &root)
	addEcho(srv)
	addSleep(srv)
	return service.Run(ctx, srv, service.WithArgs(args), service.WithCommand("vitrine serve"),
		service.WithFlags(func(fs *flag.FlagSet) {
			fs.StringVar(&root, "root", ".", "`folder` below which search_text searches")
		}))
}
