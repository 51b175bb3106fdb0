package server

import (
	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/order"
)

// Items returns what is registered at the moment, with what policies hide: tools, prompts, resources,
// templates, and methods of the program. It is for the check of the rules of a policy.
func (s *Server) Items() (items []auth.Item) {
	add := func(to *target, more func(*auth.Item)) {
		item := auth.Item{Kind: to.op.Kind, Name: to.op.Name, URI: to.op.URI, Template: to.op.Template}
		if more != nil {
			more(&item)
		}
		items = append(items, item)
	}
	for _, e := range s.tools.all() {
		add(e.target, func(item *auth.Item) { item.InputSchema = e.def.InputSchema })
	}
	for _, e := range s.prompts.all() {
		add(e.target, func(item *auth.Item) {
			for _, a := range e.def.Arguments {
				item.Arguments = append(item.Arguments, a.Name)
			}
		})
	}
	for _, e := range s.resources.all() {
		add(e.target, nil)
	}
	for _, e := range s.templates.all() {
		add(e.target, nil)
	}
	return append(items, s.methods.ownItems()...)
}

// ownItems returns the methods of the program, by name.
func (t *methodRegistry) ownItems() (items []auth.Item) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for name, m := range t.byName {
		if m.own {
			items = append(items, auth.Item{Method: name})
		}
	}
	order.By(items, func(a, b *auth.Item) bool { return a.Method < b.Method })
	return items
}
