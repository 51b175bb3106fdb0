package mcp

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The methods of prompts.
const (
	MethodPromptsList = "prompts/list"
	MethodPromptsGet  = "prompts/get"
)

// A Prompt is what prompts/list says about one prompt.
type Prompt struct {
	Name        string           `json:"name"`
	Title       string           `json:"title,omitempty"`
	Description string           `json:"description,omitempty"`
	Arguments   []PromptArgument `json:"arguments,omitempty"`
	Icons       []Icon           `json:"icons,omitempty"`
	Meta        Meta             `json:"_meta,omitempty"`
}

// A PromptArgument is a named text that a prompt takes.
type PromptArgument struct {
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	Required    bool   `json:"required,omitzero"`
}

// A Role names the speaker of a message: [RoleUser] or [RoleAssistant].
type Role string

const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
)

// A PromptMessage is one message of a prompt.
type PromptMessage struct {
	Role    Role    `json:"role"`
	Content Content `json:"content"`
}

// UnmarshalJSONFrom implements json.UnmarshalerFrom. Content of a type that is not
// known is an error.
func (m *PromptMessage) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	var value struct {
		Role    Role           `json:"role"`
		Content jsontext.Value `json:"content"`
	}
	if err := json.UnmarshalDecode(dec, &value); err != nil {
		return err
	}
	content, err := UnmarshalContent(value.Content)
	*m = PromptMessage{value.Role, content}
	return err
}

// ListPromptsResult is the result of prompts/list.
type ListPromptsResult struct {
	Prompts    []*Prompt `json:"prompts"`
	NextCursor string    `json:"nextCursor,omitempty"`
	ResultMeta
	CacheHint
}

// GetPromptParams is the params member of prompts/get.
type GetPromptParams struct {
	Name      string            `json:"name"`
	Arguments map[string]string `json:"arguments,omitempty"`
}

// GetPromptResult is the result of prompts/get.
type GetPromptResult struct {
	Description string          `json:"description,omitempty"`
	Messages    []PromptMessage `json:"messages"`
	ResultMeta
}

// PromptText returns a prompt with one text message of the user.
func PromptText(text string) *GetPromptResult {
	return &GetPromptResult{Messages: []PromptMessage{{Role: RoleUser, Content: &TextContent{Text: text}}}}
}
