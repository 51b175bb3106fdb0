package wire

import (
	"bytes"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/jsonvalue"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// parseID reads an id from a valid JSON value.
func parseID(v jsontext.Value) (mcp.ID, error) {
	raw := string(v)
	if !isString(v) {
		return mcp.ParseID(raw, "")
	}
	if bytes.IndexByte(v, '\\') < 0 {
		return mcp.ParseID(raw, raw[1:len(raw)-1])
	}
	return mcp.ParseID(raw, string(jsonvalue.Unquote(v)))
}

// isTwo reports whether v is the string 2.0, with or without escapes.
func isTwo(v jsontext.Value) bool {
	return string(v) == `"2.0"` || isString(v) && string(jsonvalue.Unquote(v)) == "2.0"
}

func isString(v jsontext.Value) bool { return len(v) > 0 && v[0] == '"' }

// stringOf returns the text of a valid JSON string, and "" for anything else.
func stringOf(v jsontext.Value) string {
	if !isString(v) {
		return ""
	}
	return string(jsonvalue.Unquote(v))
}

// isToken reports whether a progress token is a string or an integer, by the rules for
// ids. It allocates only for integers in an unusual form.
func isToken(v jsontext.Value) bool {
	if v == nil || isString(v) {
		return v != nil
	}
	if _, err := strconv.ParseInt(string(v), 10, 64); err == nil {
		return true
	}
	_, err := parseID(v)
	return err == nil
}

// internVersion returns b as a string, without allocating for known revisions. The plain version is
// string(b).
func internVersion(b []byte) string {
	switch string(b) {
	case string(mcp.Version20260728):
		return string(mcp.Version20260728)
	case string(mcp.Version20251125):
		return string(mcp.Version20251125)
	}
	return string(b)
}
