package era

import (
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server/internal/schema"
)

// downgrade returns a copy of a result without what a legacy revision does not know. Some clients
// reject a whole list because of one unknown member. The result itself is not changed, because
// its handler may share it.
func downgrade(v mcp.Version, result mcp.Result) (mcp.Result, error) {
	switch r := result.(type) {
	case *mcp.InitializeResult:
		return downgradeInitialize(*r), nil
	case *mcp.ListToolsResult:
		return changed(r, func(c *mcp.ListToolsResult) { c.Tools = downgradeList(v, c.Tools, downgradeTool) }), nil
	case *mcp.CallToolResult:
		return downgradeCall(v, *r)
	}
	if v.AtLeast(mcp.Version20251125) {
		return result, nil // no later revision has changed the following results
	}
	switch r := result.(type) {
	case *mcp.ListPromptsResult:
		return changed(r, func(c *mcp.ListPromptsResult) { c.Prompts = downgradeList(v, c.Prompts, downgradePrompt) }), nil
	case *mcp.GetPromptResult:
		return changed(r, func(c *mcp.GetPromptResult) {
			c.Messages = slices.Clone(c.Messages)
			for i := range c.Messages {
				c.Messages[i].Content = downgradeBlock(v, c.Messages[i].Content)
			}
		}), nil
	case *mcp.ListResourcesResult:
		return changed(r, func(c *mcp.ListResourcesResult) { c.Resources = downgradeList(v, c.Resources, downgradeResource) }), nil
	case *mcp.ListResourceTemplatesResult:
		return changed(r, func(c *mcp.ListResourceTemplatesResult) {
			c.ResourceTemplates = downgradeList(v, c.ResourceTemplates, downgradeTemplate)
		}), nil
	case *mcp.ReadResourceResult:
		return changed(r, func(c *mcp.ReadResourceResult) {
			c.Contents = slices.Clone(c.Contents)
			for i := range c.Contents {
				c.Contents[i].Meta = downgradeMeta(v, c.Contents[i].Meta)
			}
		}), nil
	}
	return result, nil
}

// changed returns a changed copy of a result.
func changed[T any](r *T, change func(*T)) *T {
	c := *r
	change(&c)
	return &c
}

// downgradeInitialize uses the revision in the result, because the request has none.
func downgradeInitialize(r mcp.InitializeResult) *mcp.InitializeResult {
	v := r.ProtocolVersion
	if !v.AtLeast(mcp.Version20251125) {
		r.ServerInfo.Icons, r.ServerInfo.Description, r.ServerInfo.WebsiteURL = nil, "", ""
	}
	if !v.AtLeast(mcp.Version20250618) {
		r.ServerInfo.Title = ""
	}
	if !v.AtLeast(mcp.Version20250326) {
		r.Capabilities.Completions = nil
	}
	return &r
}

// downgradeList downgrades copies of the entries of a list.
func downgradeList[T any](v mcp.Version, list []*T, one func(mcp.Version, T) *T) []*T {
	list = slices.Clone(list)
	for i, entry := range list {
		list[i] = one(v, *entry)
	}
	return list
}

func downgradeTool(v mcp.Version, t mcp.Tool) *mcp.Tool {
	t.Title, t.Icons, t.Meta = downgradeTitle(v, t.Title), downgradeIcons(v, t.Icons), downgradeMeta(v, t.Meta)
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
			if len(r.Content) == 0 { // else the result would be empty
				r.Content = []mcp.Content{&mcp.TextContent{Text: string(raw)}}
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

func downgradePrompt(v mcp.Version, p mcp.Prompt) *mcp.Prompt {
	p.Title, p.Icons, p.Meta = downgradeTitle(v, p.Title), downgradeIcons(v, p.Icons), downgradeMeta(v, p.Meta)
	p.Arguments = slices.Clone(p.Arguments)
	for i := range p.Arguments {
		p.Arguments[i].Title = downgradeTitle(v, p.Arguments[i].Title)
	}
	return &p
}

func downgradeResource(v mcp.Version, r mcp.Resource) *mcp.Resource {
	r.Title, r.Icons, r.Meta = downgradeTitle(v, r.Title), downgradeIcons(v, r.Icons), downgradeMeta(v, r.Meta)
	r.Annotations = downgradeAnnotations(v, r.Annotations)
	return &r
}

func downgradeTemplate(v mcp.Version, t mcp.ResourceTemplate) *mcp.ResourceTemplate {
	t.Title, t.Icons, t.Meta = downgradeTitle(v, t.Title), downgradeIcons(v, t.Icons), downgradeMeta(v, t.Meta)
	t.Annotations = downgradeAnnotations(v, t.Annotations)
	return &t
}

// downgradeTitle drops a title, which came with 2025-06-18.
func downgradeTitle(v mcp.Version, title string) string {
	if !v.AtLeast(mcp.Version20250618) {
		return ""
	}
	return title
}

// downgradeIcons drops icons, which came with 2025-11-25.
func downgradeIcons(v mcp.Version, icons []mcp.Icon) []mcp.Icon {
	if !v.AtLeast(mcp.Version20251125) {
		return nil
	}
	return icons
}

// downgradeMeta drops the _meta of an entry, a block or contents, which came with 2025-06-18.
// Results have had _meta in every revision.
func downgradeMeta(v mcp.Version, meta mcp.Meta) mcp.Meta {
	if !v.AtLeast(mcp.Version20250618) {
		return nil
	}
	return meta
}

// downgradeAnnotations drops lastModified, which came with 2025-06-18.
func downgradeAnnotations(v mcp.Version, a *mcp.Annotations) *mcp.Annotations {
	if a == nil || a.LastModified == "" || v.AtLeast(mcp.Version20250618) {
		return a
	}
	c := *a
	c.LastModified = ""
	return &c
}

// downgradeBlock returns a block without what the revision does not know. A block of an unknown
// kind becomes text.
func downgradeBlock(v mcp.Version, block mcp.Content) mcp.Content {
	switch b := block.(type) {
	case *mcp.TextContent:
		if !knownAbout(v, b.ContentMeta) {
			return &mcp.TextContent{Text: b.Text, ContentMeta: downgradeAbout(v, b.ContentMeta)}
		}
	case *mcp.ImageContent:
		if !knownAbout(v, b.ContentMeta) {
			return &mcp.ImageContent{Data: b.Data, MIMEType: b.MIMEType, ContentMeta: downgradeAbout(v, b.ContentMeta)}
		}
	case *mcp.AudioContent:
		return downgradeAudio(v, *b)
	case *mcp.ResourceLink:
		return downgradeLink(v, *b)
	case *mcp.EmbeddedResource:
		c := *b
		c.ContentMeta = downgradeAbout(v, b.ContentMeta)
		c.Resource.Meta = downgradeMeta(v, b.Resource.Meta)
		return &c
	}
	return block
}

// knownAbout reports whether downgradeAbout would change nothing, as for nearly all blocks.
func knownAbout(v mcp.Version, m mcp.ContentMeta) bool {
	return m.Meta == nil && (m.Annotations == nil || m.Annotations.LastModified == "") || v.AtLeast(mcp.Version20250618)
}

func downgradeAbout(v mcp.Version, m mcp.ContentMeta) mcp.ContentMeta {
	return mcp.ContentMeta{Annotations: downgradeAnnotations(v, m.Annotations), Meta: downgradeMeta(v, m.Meta)}
}

func downgradeAudio(v mcp.Version, b mcp.AudioContent) mcp.Content {
	b.ContentMeta = downgradeAbout(v, b.ContentMeta)
	if !v.AtLeast(mcp.Version20250326) {
		text := fmt.Sprintf("[audio, %s, %d bytes]", b.MIMEType, len(b.Data))
		return &mcp.TextContent{Text: text, ContentMeta: b.ContentMeta}
	}
	return &b
}

func downgradeLink(v mcp.Version, b mcp.ResourceLink) mcp.Content {
	b.Icons, b.ContentMeta = downgradeIcons(v, b.Icons), downgradeAbout(v, b.ContentMeta)
	if v.AtLeast(mcp.Version20250618) {
		return &b
	}
	text := b.Name + ": " + b.URI
	if b.Description != "" {
		text += "\n" + b.Description
	}
	return &mcp.TextContent{Text: text, ContentMeta: b.ContentMeta}
}
