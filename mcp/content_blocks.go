package mcp

import (
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// ContentBlocks is the content of a message that may have one block or several: it
// encodes a single block as the block itself, which every revision understands, and
// decodes both forms.
type ContentBlocks []Content

// Text returns the text of all text blocks, joined.
func (c ContentBlocks) Text() (text string) {
	for _, block := range c {
		if t, ok := block.(*TextContent); ok {
			text += t.Text
		}
	}
	return text
}

// MarshalJSONTo implements json.MarshalerTo.
func (c ContentBlocks) MarshalJSONTo(enc *jsontext.Encoder) error {
	if len(c) == 1 {
		return json.MarshalEncode(enc, c[0])
	}
	return json.MarshalEncode(enc, []Content(c))
}

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (c *ContentBlocks) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	raw, err := dec.ReadValue()
	if err != nil {
		return err
	}
	list := []jsontext.Value{raw}
	if raw.Kind() == '[' {
		list = nil
		if err := json.Unmarshal(raw, &list); err != nil {
			return err
		}
	}
	*c = make(ContentBlocks, 0, len(list))
	for _, raw := range list {
		block, err := UnmarshalContent(raw)
		if err != nil {
			return err
		}
		*c = append(*c, block)
	}
	return nil
}

// UnmarshalContent decodes one block of content. A type that is not known is an error.
func UnmarshalContent(raw jsontext.Value) (Content, error) {
	var head struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return nil, err
	}
	var block Content
	switch head.Type {
	case "text":
		block = new(TextContent)
	case "image":
		block = new(ImageContent)
	case "audio":
		block = new(AudioContent)
	case "resource_link":
		block = new(ResourceLink)
	case "resource":
		block = new(EmbeddedResource)
	case "tool_use":
		block = new(ToolUseContent)
	case "tool_result":
		block = new(ToolResultContent)
	default:
		return nil, fmt.Errorf("mcp: there is no content of type %q", head.Type)
	}
	return block, json.Unmarshal(raw, block)
}

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (c *ToolResultContent) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	type block ToolResultContent
	var value struct {
		Content []jsontext.Value `json:"content"`
		*block
	}
	value.block = (*block)(c)
	if err := json.UnmarshalDecode(dec, &value); err != nil {
		return err
	}
	c.Content = nil
	for _, raw := range value.Content {
		part, err := UnmarshalContent(raw)
		if err != nil {
			return err
		}
		c.Content = append(c.Content, part)
	}
	return nil
}
