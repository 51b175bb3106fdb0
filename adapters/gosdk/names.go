package gosdk

import (
	"context"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// names has the names of the registered tools and prompts, and of those that lists show. These can be
// labels of metrics; names that clients send cannot. The SDK has no function for it, so the registered
// names are read when a name is not known.
type names struct {
	registry sdk.MethodHandler // answers lists

	mu     sync.RWMutex // guards the rest
	known  map[itemName]bool
	putOff map[string]int // by method: how many unknown names are not looked up
}

// An itemName is the name of what a method uses.
type itemName struct{ method, name string }

func newNames() *names {
	return &names{registry: registry(), known: map[itemName]bool{}, putOff: map[string]int{}}
}

// registry returns a handler that answers a request as the server of its session does without its
// middlewares: they may hide items from lists that they let callers use. The SDK's innermost handler is the
// same for all servers.
func registry() (innermost sdk.MethodHandler) {
	sdk.NewServer(&sdk.Implementation{Name: "names"}, nil).AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		innermost = next
		return next
	})
	return innermost
}

// label returns name if a tool or prompt is known by it, and "" if not. extra is that of the request.
func (n *names) label(ctx context.Context, session *sdk.ServerSession, extra *sdk.RequestExtra, method, name string) string {
	if method != mcp.MethodToolsCall && method != mcp.MethodPromptsGet {
		return ""
	}
	item := itemName{method, name}
	if !n.knows(item) && n.mayRead(method) {
		n.read(ctx, session, extra, item)
	}
	if !n.knows(item) {
		return ""
	}
	return name
}

func (n *names) knows(item itemName) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.known[item]
}

// mayRead reports whether the names may be read because of an unknown one.
func (n *names) mayRead(method string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.putOff[method] > 0 {
		n.putOff[method]--
		return false
	}
	return true
}

// read reads the registered names. If the name is not one of them, and they have several pages, as many
// unknown names less one are not looked up next. So each costs one page in the long run.
func (n *names) read(ctx context.Context, session *sdk.ServerSession, extra *sdk.RequestExtra, item itemName) {
	defer func() { _ = recover() }() // of the program's SetCacheable
	for cursor, pages := "", 1; ; pages++ {
		list := mcp.MethodToolsList
		var request sdk.Request = &sdk.ListToolsRequest{Session: session, Params: &sdk.ListToolsParams{Cursor: cursor}, Extra: extra}
		if item.method == mcp.MethodPromptsGet {
			list = mcp.MethodPromptsList
			request = &sdk.ListPromptsRequest{Session: session, Params: &sdk.ListPromptsParams{Cursor: cursor}, Extra: extra}
		}
		result, err := n.registry(ctx, list, request)
		if err != nil {
			return
		}
		if cursor = n.learn(result); cursor != "" {
			continue
		}
		if !n.knows(item) {
			n.mu.Lock()
			n.putOff[item.method] = pages - 1
			n.mu.Unlock()
		}
		return
	}
}

// learn adds the names on a page of a list. It returns the cursor of the next page.
func (n *names) learn(result sdk.Result) (cursor string) {
	switch list := result.(type) {
	case *sdk.ListToolsResult:
		if list != nil {
			add(n, mcp.MethodToolsCall, list.Tools, func(tool *sdk.Tool) string { return tool.Name })
			return list.NextCursor
		}
	case *sdk.ListPromptsResult:
		if list != nil {
			add(n, mcp.MethodPromptsGet, list.Prompts, func(prompt *sdk.Prompt) string { return prompt.Name })
			return list.NextCursor
		}
	}
	return ""
}

func add[T any](n *names, method string, items []T, nameOf func(T) string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, item := range items {
		n.known[itemName{method, nameOf(item)}] = true
	}
}
