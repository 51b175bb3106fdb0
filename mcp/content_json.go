package mcp

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The blocks encode with their type first, as readers of a stream like it. Each
// method has a local type without methods, so that encoding does not recurse.

// MarshalJSONTo implements json.MarshalerTo.
func (c *TextContent) MarshalJSONTo(enc *jsontext.Encoder) error {
	type block TextContent
	return json.MarshalEncode(enc, &struct {
		Type string `json:"type"`
		*block
	}{c.contentType(), (*block)(c)})
}

// MarshalJSONTo implements json.MarshalerTo.
func (c *ImageContent) MarshalJSONTo(enc *jsontext.Encoder) error {
	type block ImageContent
	return json.MarshalEncode(enc, &struct {
		Type string `json:"type"`
		*block
	}{c.contentType(), (*block)(c)})
}

// MarshalJSONTo implements json.MarshalerTo.
func (c *AudioContent) MarshalJSONTo(enc *jsontext.Encoder) error {
	type block AudioContent
	return json.MarshalEncode(enc, &struct {
		Type string `json:"type"`
		*block
	}{c.contentType(), (*block)(c)})
}

// MarshalJSONTo implements json.MarshalerTo.
func (c *ResourceLink) MarshalJSONTo(enc *jsontext.Encoder) error {
	type block ResourceLink
	return json.MarshalEncode(enc, &struct {
		Type string `json:"type"`
		*block
	}{c.contentType(), (*block)(c)})
}

// MarshalJSONTo implements json.MarshalerTo.
func (c *EmbeddedResource) MarshalJSONTo(enc *jsontext.Encoder) error {
	type block EmbeddedResource
	return json.MarshalEncode(enc, &struct {
		Type string `json:"type"`
		*block
	}{c.contentType(), (*block)(c)})
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

// MarshalJSONTo implements json.MarshalerTo.
func (c *ToolUseContent) MarshalJSONTo(enc *jsontext.Encoder) error {
	type block ToolUseContent
	return json.MarshalEncode(enc, &struct {
		Type string `json:"type"`
		*block
	}{c.contentType(), (*block)(c)})
}

// MarshalJSONTo implements json.MarshalerTo.
func (c *ToolResultContent) MarshalJSONTo(enc *jsontext.Encoder) error {
	type block ToolResultContent
	return json.MarshalEncode(enc, &struct {
		Type string `json:"type"`
		*block
	}{c.contentType(), (*block)(c)})
}
