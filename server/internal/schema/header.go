package schema

import (
	"bytes"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/server/internal/schema/evaluate"
)

// headerKeyword is the annotation that asks clients to repeat an argument in an
// HTTP header (spec section "Streamable HTTP", x-mcp-header).
const headerKeyword = "x-mcp-header"

// A Header is one x-mcp-header annotation: clients send the argument at Path
// as the HTTP header Mcp-Param-<Name>, and the server compares the two.
type Header struct {
	// Name follows "Mcp-Param-", spelled as in the schema. Header names are compared without
	// case, and no two headers of one schema have the same name.
	Name string
	// Path has the names of the properties that lead from the arguments to the value.
	Path []string
	// Type is "string", "integer" or "boolean".
	Type string
}

// Keywords whose value is not a schema and may hold anything.
var plainKeywords = map[string]bool{
	"const": true, "enum": true, "default": true, "examples": true,
	"required": true, "dependentRequired": true, "$vocabulary": true,
}

// Keywords whose value maps names to schemas. A property with the name x-mcp-header is not
// an annotation.
var namingKeywords = map[string]bool{
	"properties": true, "patternProperties": true, "dependentSchemas": true,
	"dependencies": true, "$defs": true, "definitions": true,
}

// A keywordWalk visits a schema and all schemas within it. It collects annotations and the
// names of properties, and ends with the first mistake.
type keywordWalk struct {
	headers []Header
	at      map[string]string // lower-case header name to the path that has it
	names   map[string]bool   // of all properties
}

// walkKeywords reads the annotations and the names of properties of a schema. A mistake in
// an annotation is an error, because clients that follow the specification drop a tool that
// has one.
func walkKeywords(doc any) (w keywordWalk, err error) {
	w = keywordWalk{at: map[string]string{}, names: map[string]bool{}}
	return w, w.schema(doc, []string{}, "")
}

// schema visits one schema. path is nil if any keyword but properties leads to it. where is
// its JSON pointer in the document, for errors.
func (w *keywordWalk) schema(node any, path []string, where string) error {
	if list, ok := node.([]any); ok { // allOf, prefixItems and their like
		for i, item := range list {
			if err := w.schema(item, nil, where+"/"+strconv.Itoa(i)); err != nil {
				return err
			}
		}
		return nil
	}
	object, ok := node.(map[string]any)
	if !ok {
		return nil
	}
	if name, ok := object[headerKeyword]; ok {
		if err := w.annotation(object, name, path, where); err != nil {
			return err
		}
	}
	for _, keyword := range slices.Sorted(maps.Keys(object)) {
		if keyword == headerKeyword || plainKeywords[keyword] {
			continue
		}
		if err := w.keyword(keyword, object[keyword], path, where+"/"+keyword); err != nil {
			return err
		}
	}
	return nil
}

func (w *keywordWalk) keyword(keyword string, value any, path []string, where string) error {
	names, ok := value.(map[string]any)
	if !ok || !namingKeywords[keyword] {
		return w.schema(value, nil, where)
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		var next []string
		if keyword == "properties" {
			w.names[name] = true
			if path != nil {
				next = append(slices.Clone(path), name)
			}
		}
		if err := w.schema(names[name], next, where+"/"+name); err != nil {
			return err
		}
	}
	return nil
}

// annotation checks one x-mcp-header and keeps it.
func (w *keywordWalk) annotation(object map[string]any, value any, path []string, where string) error {
	name, ok := value.(string)
	if !ok || !isToken(name) {
		return fmt.Errorf("%s of %q: must be a non-empty RFC 9110 token (letters, digits, !#$%%&'*+-.^_`|~)", headerKeyword, where)
	}
	if len(path) == 0 {
		return fmt.Errorf("%s of %q: only allowed on a property that is reached through \"properties\" alone", headerKeyword, where)
	}
	typ, _ := object["type"].(string)
	if typ != "string" && typ != "integer" && typ != "boolean" {
		return fmt.Errorf(`%s of %q: the property's "type" must be exactly one of string, integer and boolean`, headerKeyword, where)
	}
	folded := strings.ToLower(name)
	if first, ok := w.at[folded]; ok {
		return fmt.Errorf("%s of %q: %q is already used by %q (names compare without case)", headerKeyword, where, name, first)
	}
	w.at[folded] = where
	w.headers = append(w.headers, Header{Name: name, Path: path, Type: typ})
	return nil
}

// isToken reports whether name is a token of RFC 9110, section 5.6.2.
func isToken(name string) bool {
	for i := range len(name) {
		c := name[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0:
		default:
			return false
		}
	}
	return name != ""
}

// At returns the value that a path of member names leads to, or nil. The text must be valid
// JSON without a name that is there twice. At does not read beyond the value.
func At(raw jsontext.Value, path ...string) jsontext.Value {
	dec := forgetful(raw)
	for _, name := range path {
		if !enter(dec, name) {
			return nil
		}
	}
	value, err := dec.ReadValue()
	if err != nil {
		return nil
	}
	return slices.Clone(value)
}

// enter moves the decoder from an object to the value of a member.
func enter(dec *jsontext.Decoder, name string) bool {
	if dec.PeekKind() != '{' {
		return false
	}
	if _, err := dec.ReadToken(); err != nil {
		return false
	}
	for dec.PeekKind() == '"' {
		token, err := dec.ReadToken()
		if err != nil {
			return false
		}
		if token.String() == name {
			return true
		}
		if dec.SkipValue() != nil {
			return false
		}
	}
	return false
}

// forgetful returns a decoder that does not remember the names of an object's members, which would take many times their size.
func forgetful(raw jsontext.Value) *jsontext.Decoder {
	return jsontext.NewDecoder(bytes.NewBuffer(raw), jsontext.AllowDuplicateNames(true))
}

// Without returns a JSON object without the member of a name. It does not change the text, which must be as for [At]; any other text may
// be returned as it is.
func Without(object jsontext.Value, name string) jsontext.Value {
	dec := forgetful(object)
	if dec.PeekKind() != '{' {
		return object
	}
	if _, err := dec.ReadToken(); err != nil {
		return object
	}
	for first := true; dec.PeekKind() == '"'; first = false {
		from := dec.InputOffset() // of the comma, but for the first member
		member, err := dec.ReadToken()
		if err != nil {
			return object
		}
		found := member.String() == name
		if dec.SkipValue() != nil {
			return object
		}
		if !found {
			continue
		}
		after := bytes.TrimLeft(object[dec.InputOffset():], " \t\r\n")
		if first {
			after = bytes.TrimPrefix(after, []byte(","))
		}
		return slices.Concat(object[:from], after)
	}
	return object
}

// SameAsHeader reports whether the decoded text of a header stands for a value. It compares
// strings and booleans exactly, and numbers by their value.
func SameAsHeader(value jsontext.Value, text string) bool {
	switch value.Kind() {
	case '"':
		s, err := jsontext.AppendUnquote(nil, value)
		return err == nil && string(s) == text
	case '0':
		return string(value) == text || sameNumber(value, jsontext.Value(text))
	}
	return string(value) == text
}

func sameNumber(a, b jsontext.Value) bool {
	if b.Kind() != '0' || !b.IsValid() || !evaluate.NumberInBounds(a) || !evaluate.NumberInBounds(b) {
		return false
	}
	x, okA := new(big.Rat).SetString(string(a))
	y, okB := new(big.Rat).SetString(string(b))
	return okA && okB && x.Cmp(y) == 0
}
