package server

// An ItemKind is what an [Item] is.
type ItemKind string

const (
	ItemTool     ItemKind = "tool"
	ItemPrompt   ItemKind = "prompt"
	ItemResource ItemKind = "resource"
	ItemTemplate ItemKind = "resource template"
)

// An Item is something that a caller may or may not see.
type Item struct {
	Kind ItemKind
	// Name is the name under which it is registered; that of a resource, or of a template,
	// need not be unique.
	Name string
	// URI is that of a resource; of a template the one that is to be read or subscribed to,
	// and "" where the template itself is listed or completed.
	URI string
	// Template is the URI template of a template.
	Template string
}
