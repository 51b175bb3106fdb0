package mcp

// ClientCapabilities is what a client declares that it can do: a legacy client
// once in initialize, a modern one in every request. A nil member is not
// supported; unknown members are ignored.
type ClientCapabilities struct {
	Experimental map[string]any         `json:"experimental,omitzero"`
	Roots        *RootsCapability       `json:"roots,omitzero"`
	Sampling     *SamplingCapability    `json:"sampling,omitzero"`
	Elicitation  *ElicitationCapability `json:"elicitation,omitzero"`
	Extensions   map[string]any         `json:"extensions,omitzero"`
}

// RootsCapability: the client can list its roots.
type RootsCapability struct {
	ListChanged bool `json:"listChanged,omitzero"`
}

// SamplingCapability: the client can ask its model.
type SamplingCapability struct {
	Context *struct{} `json:"context,omitzero"`
	Tools   *struct{} `json:"tools,omitzero"`
}

// ElicitationCapability: the client can ask its user. With neither member set it
// means forms.
type ElicitationCapability struct {
	Form *struct{} `json:"form,omitzero"`
	URL  *struct{} `json:"url,omitzero"`
}

// ServerCapabilities is what a server announces in server/discover and initialize.
type ServerCapabilities struct {
	Experimental map[string]any       `json:"experimental,omitzero"`
	Logging      *struct{}            `json:"logging,omitzero"`
	Completions  *struct{}            `json:"completions,omitzero"`
	Prompts      *PromptsCapability   `json:"prompts,omitzero"`
	Resources    *ResourcesCapability `json:"resources,omitzero"`
	Tools        *ToolsCapability     `json:"tools,omitzero"`
	Extensions   map[string]any       `json:"extensions,omitzero"`
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
