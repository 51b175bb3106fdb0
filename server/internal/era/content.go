package era

import (
	"fmt"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// What revisions before 2025-11-25 do not know of the things that results are made of.

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

// downgradeMeta drops the _meta of an entry, a block or contents, which came with
// 2025-06-18. That of a result was always there.
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

// downgradeBlock returns a block without what the revision does not know; a block of a
// kind that it does not know becomes text.
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

// knownAbout reports whether downgradeAbout has nothing to do, as with nearly all blocks.
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
