package era

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// appendToolResult appends the JSON of the most frequent kind of result: plain blocks of text, and
// structured content that is JSON already. It writes the same bytes as the encoder in a fifth of
// the time (BenchmarkToolResult). For any other result, and in the plain version, the encoder
// writes the result: then appendToolResult returns dst unchanged and false.
func appendToolResult(dst []byte, r *mcp.CallToolResult) (_ []byte, ok bool) {
	if len(r.Content) == 0 || len(r.Meta) > 0 {
		return dst, false
	}
	at := len(dst)
	dst = append(dst, `{"content":[`...)
	for i, block := range r.Content {
		text, ok := block.(*mcp.TextContent)
		if !ok || text == nil || text.Annotations != nil || len(text.Meta) > 0 {
			return dst[:at], false
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(wire.AppendString(append(dst, `{"type":"text","text":`...), text.Text), '}')
	}
	dst = append(dst, ']')
	switch structured := r.StructuredContent.(type) {
	case nil:
	case jsontext.Value:
		var err error
		dst, err = wire.AppendValue(append(dst, `,"structuredContent":`...), structured)
		if err != nil {
			return dst[:at], false // the encoder will return the error
		}
	default:
		return dst[:at], false
	}
	if r.IsError {
		dst = append(dst, `,"isError":true`...)
	}
	return append(dst, '}'), true
}
