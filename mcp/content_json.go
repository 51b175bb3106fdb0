package mcp

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// A typedBlock is a content block with its type as the first member, so that readers of a
// stream know early what follows. M is a pointer to the block's struct type without its
// methods, or encoding would not end.
type typedBlock[M any] struct {
	Type    string `json:"type"`
	Members M      `json:",embed"`
}

// MarshalJSONTo implements json.MarshalerTo.
func (c *TextContent) MarshalJSONTo(enc *jsontext.Encoder) error {
	type members TextContent
	return json.MarshalEncode(enc, &typedBlock[*members]{c.contentType(), (*members)(c)})
}

// MarshalJSONTo implements json.MarshalerTo.
func (c *ImageContent) MarshalJSONTo(enc *jsontext.Encoder) error {
	type members ImageContent
	return json.MarshalEncode(enc, &typedBlock[*members]{c.contentType(), (*members)(c)})
}

// MarshalJSONTo implements json.MarshalerTo.
func (c *AudioContent) MarshalJSONTo(enc *jsontext.Encoder) error {
	type members AudioContent
	return json.MarshalEncode(enc, &typedBlock[*members]{c.contentType(), (*members)(c)})
}

// MarshalJSONTo implements json.MarshalerTo.
func (c *ResourceLink) MarshalJSONTo(enc *jsontext.Encoder) error {
	type members ResourceLink
	return json.MarshalEncode(enc, &typedBlock[*members]{c.contentType(), (*members)(c)})
}

// MarshalJSONTo implements json.MarshalerTo.
func (c *EmbeddedResource) MarshalJSONTo(enc *jsontext.Encoder) error {
	type members EmbeddedResource
	return json.MarshalEncode(enc, &typedBlock[*members]{c.contentType(), (*members)(c)})
}

// MarshalJSONTo implements json.MarshalerTo.
func (c *ToolUseContent) MarshalJSONTo(enc *jsontext.Encoder) error {
	type members ToolUseContent
	return json.MarshalEncode(enc, &typedBlock[*members]{c.contentType(), (*members)(c)})
}

// MarshalJSONTo implements json.MarshalerTo.
func (c *ToolResultContent) MarshalJSONTo(enc *jsontext.Encoder) error {
	type members ToolResultContent
	return json.MarshalEncode(enc, &typedBlock[*members]{c.contentType(), (*members)(c)})
}

// MarshalJSONTo implements json.MarshalerTo. A resource has its text or its
// blob, even when that is empty.
func (c *ResourceContents) MarshalJSONTo(enc *jsontext.Encoder) error {
	type contents ResourceContents
	if c.Blob != nil || c.Text != "" {
		return json.MarshalEncode(enc, (*contents)(c))
	}
	return json.MarshalEncode(enc, &struct {
		*contents
		Text string `json:"text"`
	}{(*contents)(c), ""})
}
