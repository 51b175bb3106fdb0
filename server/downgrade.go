package server

import (
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server/internal/schema"
)

// downgrade returns a result without what a legacy revision does not know. Some
// clients refuse a whole list for one tool that has too much. The result itself,
// which its handler may share, is not changed.
func downgrade(v mcp.Version, result mcp.Result) (mcp.Result, error) {
	switch r := result.(type) {
	case *mcp.ListToolsResult:
		c := *r
		c.Tools = slices.Clone(r.Tools)
		for i, t := range c.Tools {
			c.Tools[i] = downgradeTool(v, *t)
		}
		return &c, nil
	case *mcp.CallToolResult:
		return downgradeCall(v, *r)
	}
	return result, nil
}

func downgradeTool(v mcp.Version, t mcp.Tool) *mcp.Tool {
	if !v.AtLeast(mcp.Version20251125) {
		t.Icons = nil
	}
	if !v.AtLeast(mcp.Version20250618) {
		t.Title = ""
	}
	if !v.AtLeast(mcp.Version20250326) {
		t.Annotations = nil
	}
	if !v.AtLeast(mcp.Version20250618) || string(schema.At(t.OutputSchema, "type")) != `"object"` {
		t.OutputSchema = nil
	}
	return &t
}

func downgradeCall(v mcp.Version, r mcp.CallToolResult) (mcp.Result, error) {
	if r.StructuredContent != nil {
		raw, err := wire.Marshal(nil, r.StructuredContent)
		if err != nil {
			return nil, fmt.Errorf("encode the structured content: %w", err)
		}
		r.StructuredContent = jsontext.Value(raw)
		if !v.AtLeast(mcp.Version20250618) || jsontext.Value(raw).Kind() != '{' {
			r.StructuredContent = nil
			if len(r.Content) == 0 { // else nothing would be left of it
				r.Content = []mcp.Content{&mcp.Text{Text: string(raw)}}
			}
		}
	}
	if !v.AtLeast(mcp.Version20251125) {
		r.Content = slices.Clone(r.Content)
		for i, block := range r.Content {
			r.Content[i] = downgradeBlock(v, block)
		}
	}
	return &r, nil
}

// downgradeBlock turns a block that a revision before 2025-11-25 does not know into
// text.
func downgradeBlock(v mcp.Version, block mcp.Content) mcp.Content {
	switch b := block.(type) {
	case *mcp.ResourceLink:
		if v.AtLeast(mcp.Version20250618) {
			c := *b
			c.Icons = nil
			return &c
		}
		text := b.Name + ": " + b.URI
		if b.Description != "" {
			text += "\n" + b.Description
		}
		return &mcp.Text{Text: text, ContentMeta: b.ContentMeta}
	case *mcp.Audio:
		if !v.AtLeast(mcp.Version20250326) {
			text := fmt.Sprintf("[audio, %s, %d bytes]", b.MIMEType, len(b.Data))
			return &mcp.Text{Text: text, ContentMeta: b.ContentMeta}
		}
	}
	return block
}
