package adapt

import (
	"bytes"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// An object has the members of a JSON object by which requests are told apart. A value has those of
// the object inside the member, or nil if that may have any names.
type object map[string]object

// ofMessage has the members of a message.
var ofMessage = object{
	"jsonrpc": nil, "id": nil, "method": nil,
	"params": {
		"name": nil, "uri": nil, "taskId": nil, "arguments": nil, "_meta": nil, "requestId": nil, "reason": nil,
		"ref":           {"type": nil, "name": nil, "uri": nil},
		"notifications": {"resourceSubscriptions": nil},
	},
}

// agreed reports whether all decoders of JSON find the same members in a message or in a batch. It is
// false for JSON that is not valid, for an object with two members of one name, and for a name such as
// "Name" in place of "name", for which package encoding/json takes it.
func agreed(data []byte) bool {
	dec := jsontext.NewDecoder(bytes.NewReader(data))
	if dec.PeekKind() != '[' {
		return ofMessage.agreed(dec)
	}
	_, err := dec.ReadToken()
	for err == nil && dec.PeekKind() != ']' {
		if !ofMessage.agreed(dec) {
			return false
		}
	}
	_, err = dec.ReadToken()
	return err == nil
}

// agreed is [agreed] for the next value.
func (o object) agreed(dec *jsontext.Decoder) bool {
	if o == nil || dec.PeekKind() != '{' {
		return dec.SkipValue() == nil
	}
	_, err := dec.ReadToken()
	for err == nil && dec.PeekKind() == '"' {
		var token jsontext.Token
		if token, err = dec.ReadToken(); err != nil {
			return false
		}
		if name := token.String(); o.misspelt(name) || !o[name].agreed(dec) {
			return false
		}
	}
	_, err = dec.ReadToken()
	return err == nil
}

// misspelt reports whether a name differs from one of the members in the case of its letters only.
func (o object) misspelt(name string) bool {
	if _, ok := o[name]; ok {
		return false
	}
	for member := range o {
		if strings.EqualFold(member, name) {
			return true
		}
	}
	return false
}
