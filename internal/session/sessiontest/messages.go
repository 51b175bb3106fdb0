package sessiontest

import (
	"fmt"
	"strings"
)

// Modern returns a tools/call of the modern era.
func Modern(id int, name string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"_meta":{`+
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`, id, name)
}

// Legacy returns a request of the legacy era.
func Legacy(id int, method, name string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{"name":%q}}`, id, method, name)
}

// Answer returns the response to a request whose result is text.
func Answer(id int, text string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"text":%q}}`, id, text)
}

// Failure returns an error response; an id of "" leaves the id out.
func Failure(id string, code int, message string) string {
	if id != "" {
		id = `"id":` + id + `,`
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0",%s"error":{"code":%d,"message":%q}}`, id, code, message)
}

// NullFailure is Failure with an id of null, as revisions up to 2025-06-18 have it.
func NullFailure(code int, message string) string { return Failure("null", code, message) }

// Batch returns a JSON-RPC batch.
func Batch(messages ...string) string { return "[" + strings.Join(messages, ",") + "]" }
