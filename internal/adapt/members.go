package adapt

import (
	"bytes"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// members are the names in messages by which requests are told apart.
var members = []string{
	"jsonrpc", "id", "method", "params", "name", "uri", "taskId", "arguments", "_meta",
	"ref", "type", "notifications", "resourceSubscriptions", "requestId", "reason",
}

// agreed reports whether all decoders of JSON find the same members in a message. It is false for
// JSON that is not valid, for an object with two members of one name, and for a name such as "Name",
// which package encoding/json takes for "name".
func agreed(data []byte) bool {
	dec := jsontext.NewDecoder(bytes.NewReader(data))
	for {
		kind := dec.PeekKind()
		if within, length := dec.StackIndex(dec.StackDepth()); within == '{' && length%2 == 0 && kind == '"' {
			name, err := dec.ReadToken()
			if err != nil || misspelt(name.String()) {
				return false
			}
			if free(name.String()) && dec.SkipValue() != nil {
				return false
			}
			continue
		}
		if _, err := dec.ReadToken(); err != nil {
			return false
		}
		if dec.StackDepth() == 0 {
			return true
		}
	}
}

// misspelt reports whether a name differs from one of the members in the case of its letters only.
func misspelt(name string) bool {
	return !slices.Contains(members, name) &&
		slices.ContainsFunc(members, func(m string) bool { return strings.EqualFold(m, name) })
}

// free reports whether a member has names of its own choice in it. SDKs keep them as they came.
func free(name string) bool { return name == "arguments" || name == "_meta" }
