package middleware

import (
	"bytes"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// Policies must be asked about what the server uses. Other servers read params less strictly than ours: they ignore
// members that they do not know, match names without regard to case, or take the last of two members of one name. So
// this file reads each member that a question needs by itself, whatever the other members are. It returns an error for
// the caller if such a member cannot be read, or if servers may read it differently.

// members returns the values of some members of an object in params, each nil if it is not there. path is where the
// object is. An object that is absent or null has no members. Text in the values need not be valid UTF-8.
func members(object jsontext.Value, path string, names ...string) ([]jsontext.Value, error) {
	values := make([]jsontext.Value, len(names))
	if len(object) == 0 || object.Kind() == 'n' {
		return values, nil
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(object), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if token, err := dec.ReadToken(); err != nil || token.Kind() != '{' {
		return nil, mustBe(path, "an object")
	}
	for dec.PeekKind() == '"' {
		token, err := dec.ReadToken()
		if err != nil {
			return nil, mustBe(path, "an object")
		}
		name := token.String()
		needed := slices.IndexFunc(names, func(one string) bool { return strings.EqualFold(name, one) })
		value, err := dec.ReadValue()
		if err != nil {
			return nil, mustBe(path, "an object")
		}
		if needed < 0 {
			continue
		}
		if name != names[needed] || values[needed] != nil {
			return nil, mcp.NewError(mcp.CodeInvalidParams, "%s must have one member %q, in these letters", path, names[needed])
		}
		end := dec.InputOffset()
		values[needed] = object[end-int64(len(value)) : end : end]
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, mustBe(path, "an object")
	}
	return values, nil
}

// stringIn returns the string that a member of params has.
func stringIn(value jsontext.Value, path string) (s string, err error) {
	if value.Kind() != '"' || json.Unmarshal(value, &s) != nil {
		return "", mustBe(path, "a string")
	}
	return s, nil
}

// stringsIn returns the strings in the array that a member of params has; none if it is absent or null. Of more than
// most it returns one more and reads no further, because an array may have a million.
func stringsIn(value jsontext.Value, path string, most int) (list []string, err error) {
	if len(value) == 0 || value.Kind() == 'n' {
		return nil, nil
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(value))
	if token, err := dec.ReadToken(); err == nil && token.Kind() == '[' {
		for token, err = dec.ReadToken(); err == nil && token.Kind() == '"'; token, err = dec.ReadToken() {
			if list = append(list, token.String()); len(list) > most {
				return list, nil
			}
		}
		if err == nil && token.Kind() == ']' {
			return list, nil
		}
	}
	return nil, mustBe(path, "an array of strings")
}

// mustBe is the error for the caller about a member of params with a wrong type.
func mustBe(path, what string) error {
	return mcp.NewError(mcp.CodeInvalidParams, "%s must be %s", path, what)
}
