package mcp

// CreateMessageParams asks the client's model (sampling/createMessage).
type CreateMessageParams struct {
	Messages         []SamplingMessage `json:"messages"`
	MaxTokens        int               `json:"maxTokens"`
	SystemPrompt     string            `json:"systemPrompt,omitempty"`
	IncludeContext   string            `json:"includeContext,omitempty"` // "none", "thisServer", "allServers"
	Temperature      *float64          `json:"temperature,omitzero"`
	StopSequences    []string          `json:"stopSequences,omitempty"`
	ModelPreferences *ModelPreferences `json:"modelPreferences,omitzero"`
	Tools            []*Tool           `json:"tools,omitempty"` // needs the client's sampling.tools
	ToolChoice       *ToolChoice       `json:"toolChoice,omitzero"`
	Metadata         map[string]any    `json:"metadata,omitempty"`
}

// A SamplingMessage is one message of a conversation with the client's model.
type SamplingMessage struct {
	Role    Role          `json:"role"`
	Content ContentBlocks `json:"content"`
	Meta    Meta          `json:"_meta,omitempty"`
}

// ModelPreferences says what matters in the choice of a model. Priorities are 0 to 1.
type ModelPreferences struct {
	Hints                []ModelHint `json:"hints,omitempty"`
	CostPriority         *float64    `json:"costPriority,omitzero"`
	SpeedPriority        *float64    `json:"speedPriority,omitzero"`
	IntelligencePriority *float64    `json:"intelligencePriority,omitzero"`
}

// A ModelHint names a model or a family of models.
type ModelHint struct {
	Name string `json:"name,omitempty"`
}

// ToolChoice says whether the model may, must or must not use tools: "auto",
// "required", "none".
type ToolChoice struct {
	Mode string `json:"mode,omitempty"`
}

// CreateMessageResult is what the client's model has said. All of it is untrusted.
type CreateMessageResult struct {
	Role       Role          `json:"role"`
	Content    ContentBlocks `json:"content"`
	Model      string        `json:"model"`
	StopReason string        `json:"stopReason,omitempty"` // "endTurn", "stopSequence", "maxTokens", "toolUse"
	Meta       Meta          `json:"_meta,omitempty"`
}
