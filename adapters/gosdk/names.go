package gosdk

import (
	"context"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// maxPages bounds how many pages of a list are read to find out what is registered.
const maxPages = 100

// names are the registered tools and prompts, which can be labels of metrics; the names that
// clients send cannot. The SDK has no function that tells whether there is a tool, so
// its list is read when a name is not known.
type names struct {
	known sync.Map // of [2]string: the method and the name
}

// label returns the name if something is registered by it, and else "".
func (n *names) label(ctx context.Context, next sdk.MethodHandler, session *sdk.ServerSession, method, name string) string {
	var list func(*names, context.Context, sdk.MethodHandler, *sdk.ServerSession, string) (string, error)
	switch method {
	case mcp.MethodToolsCall:
		list = (*names).tools
	case mcp.MethodPromptsGet:
		list = (*names).prompts
	default:
		return ""
	}
	if _, ok := n.known.Load([2]string{method, name}); ok {
		return name
	}
	func() {
		defer func() { _ = recover() }() // of a middleware of the SDK, which the call itself will meet
		for cursor, page := "", 0; page < maxPages; page++ {
			following, err := list(n, ctx, next, session, cursor)
			if err != nil || following == "" {
				return
			}
			cursor = following
		}
	}()
	if _, ok := n.known.Load([2]string{method, name}); ok {
		return name
	}
	return ""
}

func (n *names) tools(ctx context.Context, next sdk.MethodHandler, session *sdk.ServerSession, cursor string) (string, error) {
	result, err := next(ctx, mcp.MethodToolsList, &sdk.ListToolsRequest{
		Session: session, Params: &sdk.ListToolsParams{Cursor: cursor},
	})
	list, ok := result.(*sdk.ListToolsResult)
	if err != nil || !ok {
		return "", err
	}
	for _, tool := range list.Tools {
		n.known.Store([2]string{mcp.MethodToolsCall, tool.Name}, true)
	}
	return list.NextCursor, nil
}

func (n *names) prompts(ctx context.Context, next sdk.MethodHandler, session *sdk.ServerSession, cursor string) (string, error) {
	result, err := next(ctx, mcp.MethodPromptsList, &sdk.ListPromptsRequest{
		Session: session, Params: &sdk.ListPromptsParams{Cursor: cursor},
	})
	list, ok := result.(*sdk.ListPromptsResult)
	if err != nil || !ok {
		return "", err
	}
	for _, prompt := range list.Prompts {
		n.known.Store([2]string{mcp.MethodPromptsGet, prompt.Name}, true)
	}
	return list.NextCursor, nil
}
