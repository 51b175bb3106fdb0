package main

import (
	"context"
	"fmt"
	"time"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
)

// maxSearches is how many searches run at once.
const maxSearches = 256

// addSearch adds search_text, and closes the searcher with the server.
func addSearch(srv *server.Server, s *searcher) {
	srv.AddHook("search", nil, func(context.Context) error { return s.close() })
	server.AddTool(srv, server.Tool{
		Name:  "search_text",
		Title: "Search text files",
		Description: "Find the lines that match a regular expression in the text files below the root folder. " +
			"Returns path, line number and text of each match, ordered by path. Skips binary files, files of more than " +
			"8 MiB, folders named .git or node_modules, and hidden files unless the server was started with --hidden. " +
			"Narrow a search with path and include; if truncated is true, there is more than was returned.",
		Annotations: readOnly(),
		Class:       server.NewClass("search", maxSearches),
	}, func(ctx context.Context, call *server.Call, in searchInput) (searchOutput, error) {
		return s.search(ctx, in, func(done, total int) {
			_ = call.Progress(float64(done), float64(total), "") // the search sees a cancellation itself
		})
	})
}

type echoInput struct {
	Text string `json:"text" jsonschema:"text to return"`
}

// addEcho adds echo, the cheapest call there is.
func addEcho(srv *server.Server) {
	server.AddTool(srv, server.Tool{
		Name:        "echo",
		Title:       "Echo",
		Description: "Return the given text unchanged. Use it to check that the server answers.",
		Annotations: readOnly(),
	}, func(_ context.Context, _ *server.Call, in echoInput) (string, error) { return in.Text, nil })
}

// maxSleep is the longest sleep that may be asked for.
const maxSleep = 10 * time.Minute

type sleepInput struct {
	MS int64 `json:"ms" jsonschema:"milliseconds to wait, 0 to 600000"`
}

// addSleep adds sleep, a long call on demand.
func addSleep(srv *server.Server) {
	server.AddTool(srv, server.Tool{
		Name:        "sleep",
		Title:       "Sleep",
		Description: "Wait for the given number of milliseconds, then answer. Can be cancelled. Use it to try time-outs and cancellation.",
		Annotations: readOnly(),
		Deadline:    maxSleep + time.Minute,
	}, func(ctx context.Context, _ *server.Call, in sleepInput) (string, error) {
		if in.MS < 0 || in.MS > maxSleep.Milliseconds() {
			return "", mcp.ToolErrorf("ms is %d: give a number from 0 to %d", in.MS, maxSleep.Milliseconds())
		}
		d := time.Duration(in.MS) * time.Millisecond
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			return fmt.Sprintf("slept for %v", d), nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	})
}

// readOnly marks a tool that changes nothing, in a world that is closed.
func readOnly() *mcp.ToolAnnotations {
	yes, no := true, false
	return &mcp.ToolAnnotations{ReadOnlyHint: &yes, DestructiveHint: &no, IdempotentHint: &yes, OpenWorldHint: &no}
}
