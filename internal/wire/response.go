package wire

import "github.com/vitrine-mcp/vitrine/mcp"

// AppendResponseHead appends a response up to its result, so that the result can
// be encoded in place. The caller appends the result, as JSON on one line, and
// a closing brace.
func AppendResponseHead(dst []byte, id mcp.ID) []byte {
	dst = appendID(append(dst, `{"jsonrpc":"2.0"`...), id)
	return append(dst, `,"result":`...)
}
