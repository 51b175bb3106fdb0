package mcp

import (
	"fmt"
	"maps"

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
	list := make([]jsontext.Value, 1)
	var err error
	if dec.PeekKind() == '[' {
		err = json.UnmarshalDecode(dec, &list)
	} else {
		list[0], err = dec.ReadValue()
	}
	if err != nil {
		return err
	}
	*c, err = appendBlocks(make(ContentBlocks, 0, len(list)), list, newBlocks, dec.Options())
	return err
}

func appendBlocks(to []Content, list []jsontext.Value, known map[string]func() Content, options json.Options) ([]Content, error) {
	for _, raw := range list {
		block, err := unmarshalContent(raw, known, options)
		if err != nil {
			return nil, err
		}
		to = append(to, block)
	}
	return to, nil
}

// resultBlocks has a function for each type of block that the result of a tool may have, which returns an empty one.
var resultBlocks = map[string]func() Content{
	"text":          func() Content { return new(TextContent) },
	"image":         func() Content { return new(ImageContent) },
	"audio":         func() Content { return new(AudioContent) },
	"resource_link": func() Content { return new(ResourceLink) },
	"resource":      func() Content { return new(EmbeddedResource) },
}

// newBlocks is resultBlocks for all blocks.
var newBlocks = func() map[string]func() Content {
	all := maps.Clone(resultBlocks)
	all["tool_use"] = func() Content { return new(ToolUseContent) }
	all["tool_result"] = func() Content { return new(ToolResultContent) }
	return all
}()

// UnmarshalContent decodes one block of content. An unknown type is an error.
func UnmarshalContent(raw jsontext.Value) (Content, error) {
	return unmarshalContent(raw, newBlocks, nil)
}

func unmarshalContent(raw jsontext.Value, known map[string]func() Content, options json.Options) (Content, error) {
	var head struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(raw, &head, options, json.RejectUnknownMembers(false)); err != nil {
		return nil, err
	}
	newBlock := known[head.Type]
	if newBlock == nil {
		return nil, fmt.Errorf("mcp: there is no content of type %q", head.Type)
	}
	block := newBlock()
	return block, json.Unmarshal(raw, block, options)
}

// UnmarshalJSONFrom implements json.UnmarshalerFrom. A result in a result is an error: with many levels the text would be copied many
// times.
func (c *ToolResultContent) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	type block ToolResultContent
	var value struct {
		Content []jsontext.Value `json:"content"`
		*block
	}
	value.block = (*block)(c)
	err := json.UnmarshalDecode(dec, &value)
	if err == nil {
		c.Content, err = appendBlocks(nil, value.Content, resultBlocks, dec.Options())
	}
	return err
}
