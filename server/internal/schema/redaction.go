package schema

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Discreet returns [Fault.String] without anything that came with the value: no names but
// those in the schema, and no error text of a Go type's method. The value may be a secret,
// and so may the keys of its objects.
func (s *Schema) Discreet(f Fault) string {
	switch {
	case f.Quotes:
		f.Message = "is not accepted by its Go type"
	case f.Named:
		if end := strings.IndexAny(f.Message, `":`); end >= 0 {
			f.Message = strings.TrimRight(f.Message[:end], " ")
		}
	}
	var path []string
	for token := range jsontext.Pointer(f.Path).Tokens() {
		if !s.names[token] && !isIndex(token) {
			token = "…"
		}
		path = append(path, token)
	}
	f.Path = pointer(path)
	return f.String()
}

// isIndex reports whether a token looks like an index, and not like a key made of digits.
func isIndex(token string) bool { return len(token) <= 4 && strings.Trim(token, "0123456789") == "" }
