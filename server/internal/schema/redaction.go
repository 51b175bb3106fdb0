package schema

import "strings"

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
	f.Path = s.discreetPath(f.Path)
	return f.String()
}

// discreetPath replaces the names in a JSON pointer that are not in the schema.
func (s *Schema) discreetPath(path string) string {
	var b strings.Builder
	b.Grow(len(path))
	for path != "" && b.Len() <= maxPath {
		token := path[len("/"):]
		if end := strings.IndexByte(token, '/'); end >= 0 {
			token = token[:end]
		}
		path = path[len("/")+len(token):]
		b.WriteByte('/')
		name := token
		if strings.Contains(token, "~") {
			name = pointerUnescaper.Replace(token)
		}
		if !s.names[name] && !isIndex(name) {
			token = "…"
		}
		b.WriteString(token)
	}
	return b.String()
}

var pointerUnescaper = strings.NewReplacer("~1", "/", "~0", "~")

// isIndex reports whether a token looks like an index, and not like a key made of digits.
func isIndex(token string) bool { return len(token) <= 4 && strings.Trim(token, "0123456789") == "" }
