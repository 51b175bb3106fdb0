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
	registry sdk.MethodHandler   // answers lists
	readings map[string]*reading // by method

	mu    sync.RWMutex // guards known
	known map[itemName]bool
}

// A reading says when a call of one method may read the registered names.
type reading struct {
	turn   chan struct{} // has a value while a call reads
	putOff int           // how many unknown names are not looked up; for the call that has the turn
}

// An itemName is the name of what a method uses.
type itemName struct{ method, name string }

func newNames() *names {
	return &names{registry: registry(), known: map[itemName]bool{}, readings: map[string]*reading{
		mcp.MethodToolsCall:  {turn: make(chan struct{}, 1)},
		mcp.MethodPromptsGet: {turn: make(chan struct{}, 1)},
	}}
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
	item, reading := itemName{method, name}, n.readings[method]
	if reading == nil {
		return ""
	}
	if !n.knows(item) {
		n.lookUp(ctx, session, extra, item, reading)
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

// lookUp reads the registered names because item is not known. Calls of one method take turns, so those that
// wait find what another call has read.
//
// A call whose name is still unknown may have read many pages. The same number of unknown names, less one,
// is then not looked up. So each unknown name costs one page in the long run.
func (n *names) lookUp(ctx context.Context, session *sdk.ServerSession, extra *sdk.RequestExtra, item itemName, reading *reading) {
	select {
	case reading.turn <- struct{}{}:
		defer func() { <-reading.turn }()
	case <-ctx.Done():
		return
	}
	if n.knows(item) {
		return
	}
	if reading.putOff > 0 {
		reading.putOff--
		return
	}
	if pages := n.read(ctx, session, extra, item.method); !n.knows(item) {
		reading.putOff = pages - 1
	}
}

// read reads the registered names of what a method uses. It returns how many pages it has asked for.
func (n *names) read(ctx context.Context, session *sdk.ServerSession, extra *sdk.RequestExtra, method string) (pages int) {
	defer func() { _ = recover() }() // of the program's SetCacheable
	cursor := ""
	for {
		list := mcp.MethodToolsList
		var request sdk.Request = &sdk.ListToolsRequest{Session: session, Params: &sdk.ListToolsParams{Cursor: cursor}, Extra: extra}
		if method == mcp.MethodPromptsGet {
			list = mcp.MethodPromptsList
			request = &sdk.ListPromptsRequest{Session: session, Params: &sdk.ListPromptsParams{Cursor: cursor}, Extra: extra}
		}
		pages++
		result, err := n.registry(ctx, list, request)
		if err != nil {
			return pages
		}
		if cursor = n.learn(result); cursor == "" {
			return pages
		}
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

// add adds the names of items. It takes the write lock only if it finds a new one.
func add[T any](n *names, method string, items []*T, nameOf func(*T) string) {
	var unknown []itemName
	for _, item := range items {
		if item == nil { // from a middleware of the SDK
			continue
		}
		if name := (itemName{method, nameOf(item)}); !n.knows(name) {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) == 0 {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, name := range unknown {
		n.known[name] = true
	}
}
