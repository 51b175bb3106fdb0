package era

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// The fast encoder writes the same bytes as the general one.
func TestAppendToolResult(t *testing.T) {
	text := func(s string) mcp.Content { return &mcp.TextContent{Text: s} }
	priority := 0.5
	for _, tt := range []struct {
		name   string
		result *mcp.CallToolResult
		byHand bool
	}{
		{"text", &mcp.CallToolResult{Content: []mcp.Content{text("hello")}}, true},
		{"empty text", &mcp.CallToolResult{Content: []mcp.Content{text("")}}, true},
		{"two blocks", &mcp.CallToolResult{Content: []mcp.Content{text("a"), text("b")}}, true},
		{"escapes", &mcp.CallToolResult{Content: []mcp.Content{text("\"\\\n\x00<>&\u2028é\U0001F600")}}, true},
		{"not UTF-8", &mcp.CallToolResult{Content: []mcp.Content{text("a\xffb")}}, true},
		{"error", &mcp.CallToolResult{Content: []mcp.Content{text("no")}, IsError: true}, true},
		{"structured", textResult("x", jsontext.Value(`{"a":1}`)), true},
		{"structured, with spaces", textResult("x", jsontext.Value("{ \"a\" :\n[1, 2.50, \"\\u00e9\\/\"] }")), true},
		{"structured null", textResult("x", jsontext.Value(`null`)), true},
		{"structured not UTF-8", textResult("x", jsontext.Value("\"a\xffb\"")), true},
		{"structured value of Go", textResult("x", map[string]int{"b": 1, "a": 2}), false},
		{"structured twice", textResult("x", jsontext.Value(`{"a":1,"a":2}`)), false},
		{"structured half", textResult("x", jsontext.Value(`{"a":`)), false},
		{"structured empty", textResult("x", jsontext.Value(``)), false},
		{"no content", &mcp.CallToolResult{}, false},
		{"nil content", &mcp.CallToolResult{Content: []mcp.Content{nil}}, false},
		{"nil text", &mcp.CallToolResult{Content: []mcp.Content{(*mcp.TextContent)(nil)}}, false},
		{"image", &mcp.CallToolResult{Content: []mcp.Content{text("a"), &mcp.ImageContent{Data: []byte("x"), MIMEType: "image/png"}}}, false},
		{"annotations", &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "a",
			ContentMeta: mcp.ContentMeta{Annotations: &mcp.Annotations{Priority: &priority}}}}}, false},
		{"meta of a block", &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "a",
			ContentMeta: mcp.ContentMeta{Meta: mcp.Meta{"k": 1}}}}}, false},
		{"meta", &mcp.CallToolResult{Content: []mcp.Content{text("a")}, ResultMeta: mcp.ResultMeta{Meta: mcp.Meta{"k": 1}}}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, byHand := appendToolResult([]byte("before"), tt.result)
			require.Equal(t, tt.byHand, byHand)
			if !byHand {
				require.Equal(t, "before", string(got))
				return
			}
			want, err := wire.Marshal([]byte("before"), tt.result)
			require.NoError(t, err)
			require.Equal(t, string(want), string(got))
		})
	}
}

// usualResults are those that are encoded by hand.
func usualResults() map[string]*mcp.CallToolResult {
	return map[string]*mcp.CallToolResult{
		"text":       {Content: []mcp.Content{&mcp.TextContent{Text: "a line with \"quotes\" and 20 °C\n"}}},
		"structured": textResult("x", jsontext.Value(`{"celsius":20.5,"wind":"west"}`)),
	}
}

func BenchmarkToolResult(b *testing.B) {
	dst := make([]byte, 0, 1024)
	for name, result := range usualResults() {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = appendToolResult(dst, result)
			}
		})
		b.Run(name+", by the encoder", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = wire.Marshal(dst, result)
			}
		})
	}
}

// textResult returns a result with one block of text.
func textResult(text string, structured any) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}, StructuredContent: structured}
}
