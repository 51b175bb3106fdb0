package gosdk

import (
	"context"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// maxPages bounds how many pages of a list are read.
const maxPages = 100

// names has the names of the registered tools and prompts. These can be labels of metrics; names that
// clients send cannot. The SDK has no function for it, so the list is read when a name is not
// known.
type names struct {
	known sync.Map // of [2]string: the method and the name
}

// label returns name if a tool or prompt is registered with it, and "" if not.
func (n *names) label(ctx context.Context, next sdk.MethodHandler, session *sdk.ServerSession, method, name string) string {
	if method != mcp.MethodToolsCall && method != mcp.MethodPromptsGet {
		return ""
	}
	if !n.knows(method, name) {
		n.read(ctx, next, session, method)
	}
	if !n.knows(method, name) {
		return ""
	}
	return name
}

func (n *names) knows(method, name string) bool {
	_, ok := n.known.Load([2]string{method, name})
	return ok
}

// read reads the list of tools or prompts.
func (n *names) read(ctx context.Context, next sdk.MethodHandler, session *sdk.ServerSession, method string) {
	defer func() { _ = recover() }() // of a middleware of the SDK; the call itself will panic too
	for cursor, page := "", 0; page == 0 || cursor != "" && page < maxPages; page++ {
		list := mcp.MethodToolsList
		var request sdk.Request = &sdk.ListToolsRequest{Session: session, Params: &sdk.ListToolsParams{Cursor: cursor}}
		if method == mcp.MethodPromptsGet {
			list = mcp.MethodPromptsList
			request = &sdk.ListPromptsRequest{Session: session, Params: &sdk.ListPromptsParams{Cursor: cursor}}
		}
		result, err := next(ctx, list, request)
		if err != nil {
			return
		}
		cursor = n.learn(method, result)
	}
}

// learn adds the names on a page of a list. It returns the cursor of the next page.
func (n *names) learn(method string, result sdk.Result) (cursor string) {
	switch list := result.(type) {
	case *sdk.ListToolsResult:
		for _, tool := range list.Tools {
			n.known.Store([2]string{method, tool.Name}, true)
		}
		return list.NextCursor
	case *sdk.ListPromptsResult:
		for _, prompt := range list.Prompts {
			n.known.Store([2]string{method, prompt.Name}, true)
		}
		return list.NextCursor
	}
	return ""
}
