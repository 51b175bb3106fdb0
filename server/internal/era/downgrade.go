package era

import (
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server/internal/schema"
)

// downgrade returns a result without what a legacy revision does not know. Some
// clients refuse a whole list for one entry that has too much. The result itself,
// which its handler may share, is not changed.
func downgrade(v mcp.Version, result mcp.Result) (mcp.Result, error) {
	switch r := result.(type) {
	case *mcp.InitializeResult:
		return downgradeInitialize(*r), nil
	case *mcp.ListToolsResult:
		c := *r
		c.Tools = downgradeList(v, r.Tools, downgradeTool)
		return &c, nil
	case *mcp.CallToolResult:
		return downgradeCall(v, *r)
	}
	if v.AtLeast(mcp.Version20251125) {
		return result, nil // the last revision that has changed what follows
	}
	switch r := result.(type) {
	case *mcp.ListPromptsResult:
		c := *r
		c.Prompts = downgradeList(v, r.Prompts, downgradePrompt)
		return &c, nil
	case *mcp.GetPromptResult:
		c := *r
		c.Messages = slices.Clone(r.Messages)
		for i := range c.Messages {
			c.Messages[i].Content = downgradeBlock(v, c.Messages[i].Content)
		}
		return &c, nil
	case *mcp.ListResourcesResult:
		c := *r
		c.Resources = downgradeList(v, r.Resources, downgradeResource)
		return &c, nil
	case *mcp.ListResourceTemplatesResult:
		c := *r
		c.ResourceTemplates = downgradeList(v, r.ResourceTemplates, downgradeTemplate)
		return &c, nil
	case *mcp.ReadResourceResult:
		c := *r
		c.Contents = slices.Clone(r.Contents)
		for i := range c.Contents {
			c.Contents[i].Meta = downgradeMeta(v, c.Contents[i].Meta)
		}
		return &c, nil
	}
	return result, nil
}

// downgradeInitialize goes by the revision that the result agrees on: the request came
// before that.
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
			if len(r.Content) == 0 { // else nothing would be left of it
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
