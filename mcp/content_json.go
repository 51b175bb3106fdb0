package mcp

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The blocks encode with their type first, as readers of a stream like it. Each
// method has a local type without methods, so that encoding does not recurse.

// MarshalJSONTo implements json.MarshalerTo.
func (c *Text) MarshalJSONTo(enc *jsontext.Encoder) error {
	type block Text
	return json.MarshalEncode(enc, &struct {
		Type string `json:"type"`
		*block
	}{c.contentType(), (*block)(c)})
}

// MarshalJSONTo implements json.MarshalerTo.
func (c *Image) MarshalJSONTo(enc *jsontext.Encoder) error {
	type block Image
	return json.MarshalEncode(enc, &struct {
		Type string `json:"type"`
		*block
	}{c.contentType(), (*block)(c)})
}

// MarshalJSONTo implements json.MarshalerTo.
func (c *Audio) MarshalJSONTo(enc *jsontext.Encoder) error {
	type block Audio
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
func (c *ToolUse) MarshalJSONTo(enc *jsontext.Encoder) error {
	type block ToolUse
	return json.MarshalEncode(enc, &struct {
		Type string `json:"type"`
		*block
	}{c.contentType(), (*block)(c)})
}

// MarshalJSONTo implements json.MarshalerTo.
func (c *ToolResult) MarshalJSONTo(enc *jsontext.Encoder) error {
	type block ToolResult
	return json.MarshalEncode(enc, &struct {
		Type string `json:"type"`
		*block
	}{c.contentType(), (*block)(c)})
}
