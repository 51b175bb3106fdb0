package middleware

import (
	"errors"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// errUnknownList is the error for a list that cannot be filtered, because its items are not known.
var errUnknownList = errors.New("middleware: the list is not of the type that its method has, and cannot be filtered")

// filter returns a list without the items that the caller may not see, and other results as they are.
func (q *question) filter(result mcp.Result) (mcp.Result, error) {
	switch list := result.(type) {
	case *mcp.ListToolsResult:
		changed := *list
		changed.Tools = kept(list.Tools, func(t *mcp.Tool) bool { return q.shows(listedItem(auth.KindTool, t.Name)) })
		q.private(&changed.CacheHint)
		return &changed, nil
	case *mcp.ListPromptsResult:
		changed := *list
		changed.Prompts = kept(list.Prompts, func(p *mcp.Prompt) bool { return q.shows(listedItem(auth.KindPrompt, p.Name)) })
		q.private(&changed.CacheHint)
		return &changed, nil
	case *mcp.ListResourcesResult:
		changed := *list
		changed.Resources = kept(list.Resources, func(r *mcp.Resource) bool {
			return q.shows(uriOperations(mcp.MethodResourcesRead, r.URI, true)...)
		})
		q.private(&changed.CacheHint)
		return &changed, nil
	case *mcp.ListResourceTemplatesResult:
		changed := *list
		changed.ResourceTemplates = kept(list.ResourceTemplates, func(*mcp.ResourceTemplate) bool {
			return q.shows(listedItem(auth.KindTemplate, ""))
		})
		q.private(&changed.CacheHint)
		return &changed, nil
	}
	switch q.req.Method {
	case mcp.MethodToolsList, mcp.MethodPromptsList, mcp.MethodResourcesList, mcp.MethodResourcesTemplatesList:
		return nil, errUnknownList
	}
	return result, nil
}

// shows reports whether the caller may see an item.
func (q *question) shows(ops ...auth.Operation) bool {
	d := q.decide(ops...)
	return d.Passes() || d.Effect == auth.NeedScopes
}

// private notes that a list depends on its caller. A legacy list has no such note.
func (q *question) private(hint *mcp.CacheHint) {
	if q.req.Peer.Era == mcp.Modern {
		hint.Scope = mcp.CachePrivate
	}
}

// kept returns the items that are shown, never nil, in a new list.
func kept[T any](items []T, shown func(T) bool) []T {
	list := []T{}
	for _, item := range items {
		if shown(item) {
			list = append(list, item)
		}
	}
	return list
}
