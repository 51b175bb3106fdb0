package mcp

// MethodCompletionComplete is the method of completion.
const MethodCompletionComplete = "completion/complete"

// CompleteParams is the params member of completion/complete.
type CompleteParams struct {
	Ref      CompletionReference `json:"ref"`
	Argument CompletionArgument  `json:"argument"`
	Context  struct {
		// Arguments are those that already have a value.
		Arguments map[string]string `json:"arguments,omitempty"`
	} `json:"context,omitzero"`
}

// A CompletionReference names the owner of the argument: a prompt by Name, or a resource
// template by URI.
type CompletionReference struct {
	Type string `json:"type"` // "ref/prompt" or "ref/resource"
	Name string `json:"name,omitempty"`
	URI  string `json:"uri,omitempty"`
}

// A CompletionArgument is an argument with the text that the user has typed so far.
type CompletionArgument struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// MaxCompletions is how many values one completion may have.
const MaxCompletions = 100

// A Completion holds the values that the client may offer.
type Completion struct {
	Values  []string `json:"values"`
	Total   *int     `json:"total,omitzero"` // the number of all values that match, if known
	HasMore bool     `json:"hasMore,omitzero"`
}

// CompleteResult is the result of completion/complete.
type CompleteResult struct {
	Completion Completion `json:"completion"`
	ResultMeta
}
