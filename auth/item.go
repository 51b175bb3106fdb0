package auth

// An Item is something that a server has registered, for the check of rules against it.
type Item struct {
	// Kind is the kind of the item, see [Operation], and "" for a method that the program has added.
	Kind string
	// Method is the name of a method that the program has added. It is "" for all else.
	Method string
	// Name is the registered name.
	Name string
	// URI is the URI of a resource, and Template the URI template of a template.
	URI, Template string
	// InputSchema is the JSON Schema of the arguments of a tool, or nil if it is not known. Its bytes
	// must not be changed.
	InputSchema []byte
	// Arguments are the names of the arguments of a prompt.
	Arguments []string
}
