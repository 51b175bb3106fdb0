package mcp

// ClientCapabilities is what a client declares that it can do: a legacy client
// once in initialize, a modern one in every request. A nil member is not
// supported; unknown members are ignored.
type ClientCapabilities struct {
	Experimental map[string]any         `json:"experimental,omitempty"`
	Roots        *RootsCapability       `json:"roots,omitempty"`
	Sampling     *SamplingCapability    `json:"sampling,omitempty"`
	Elicitation  *ElicitationCapability `json:"elicitation,omitempty"`
	Extensions   map[string]any         `json:"extensions,omitempty"`
}

// RootsCapability: the client can list its roots.
type RootsCapability struct {
	ListChanged bool `json:"listChanged,omitzero"`
}

// SamplingCapability: the client can ask its model.
type SamplingCapability struct {
	Context *struct{} `json:"context,omitempty"`
	Tools   *struct{} `json:"tools,omitempty"`
}

// ElicitationCapability: the client can ask its user. With neither member set it
// means forms.
type ElicitationCapability struct {
	Form *struct{} `json:"form,omitempty"`
	URL  *struct{} `json:"url,omitempty"`
}

// ServerCapabilities is what a server announces in server/discover and initialize.
type ServerCapabilities struct {
	Experimental map[string]any       `json:"experimental,omitempty"`
	Logging      *struct{}            `json:"logging,omitempty"`
	Completions  *struct{}            `json:"completions,omitempty"`
	Prompts      *PromptsCapability   `json:"prompts,omitempty"`
	Resources    *ResourcesCapability `json:"resources,omitempty"`
	Tools        *ToolsCapability     `json:"tools,omitempty"`
	Extensions   map[string]any       `json:"extensions,omitempty"`
}

// PromptsCapability: the server has prompts.
type PromptsCapability struct {
	ListChanged bool `json:"listChanged,omitzero"`
}

// ResourcesCapability: the server has resources.
type ResourcesCapability struct {
	Subscribe   bool `json:"subscribe,omitzero"`
	ListChanged bool `json:"listChanged,omitzero"`
}

// ToolsCapability: the server has tools.
type ToolsCapability struct {
	ListChanged bool `json:"listChanged,omitzero"`
}
