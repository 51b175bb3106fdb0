package wire

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/jsonvalue"
)

// Pick returns copies of those members of a JSON object whose names are wanted, and how many members it has. The object is a part of a
// message that [Decode] has read. A map of all members of 4 MiB could take 100 MiB.
func Pick(object []byte, wanted func(name []byte) bool) (picked map[string]jsontext.Value, count int) {
	picked = map[string]jsontext.Value{}
	for quoted, value := range jsonvalue.Members(object) {
		count++
		if name := jsonvalue.Unquote(quoted); wanted(name) {
			picked[string(name)] = bytes.Clone(value)
		}
	}
	return picked, count
}

// Members calls visit for each member of a JSON object, in order, with its name as it is written, in
// quotes, and its value. They are parts of the object. It reports whether text is one valid JSON object
// without a name that is there twice, also in its values; only then is what visit was told of use. It
// ends early if visit returns false, and then reports false.
//
// The plain version is a jsontext.Decoder, which takes more than twice as long (BenchmarkMembers).
func Members(text []byte, visit func(name, value jsontext.Value) bool) bool {
	s := newScanner(text, maxNesting)
	defer s.release()
	i := space(text, 0)
	if i == len(text) || text[i] != '{' {
		return false
	}
	mark := s.names.mark()
	if i = space(text, i+len("{")); i < len(text) && text[i] == '}' {
		return space(text, i+len("}")) == len(text)
	}
	for i < len(text) && text[i] == '"' {
		start := i
		end, escaped := s.text(i + len(`"`))
		if end == bad {
			return false
		}
		s.names.push(span{start, end}, escaped)
		if i = space(text, end); i >= len(text) || text[i] != ':' {
			return false
		}
		value := space(text, i+len(":"))
		if i = s.value(value, 1, noField); i == bad || s.depth > s.maxDepth {
			return false
		}
		if !visit(text[start:end:end], text[value:i:i]) {
			return false
		}
		switch i = space(text, i); {
		case i == len(text):
			return false
		case text[i] == '}':
			return s.names.popDistinct(mark) && space(text, i+len("}")) == len(text)
		case text[i] != ',':
			return false
		}
		i = space(text, i+len(","))
	}
	return false
}
