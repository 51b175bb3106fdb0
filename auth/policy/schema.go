package policy

import (
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/auth"
)

// A presence says whether an item has an argument.
type presence uint8

const (
	absent  presence = iota
	maybe            // the caller may leave it out
	present          // or nothing is known about it
)

// A schema has the part of a JSON Schema that names members.
type schema struct {
	Properties map[string]jsontext.Value `json:"properties"`
	Required   []string                  `json:"required"`
	Additional jsontext.Value            `json:"additionalProperties"`
	Pattern    jsontext.Value            `json:"patternProperties"`
	Ref        string                    `json:"$ref"`
	AllOf      jsontext.Value            `json:"allOf"`
	AnyOf      jsontext.Value            `json:"anyOf"`
	OneOf      jsontext.Value            `json:"oneOf"`
	If         jsontext.Value            `json:"if"`
}

// argumentOf reports whether an item has an argument.
func argumentOf(i auth.Item, path reference) presence {
	switch i.Kind {
	case auth.KindTool:
		return member(i.InputSchema, path)
	case auth.KindPrompt:
		if len(path) == 1 && slices.Contains(i.Arguments, path[0]) {
			return maybe
		}
		return absent
	case "":
		return present
	}
	return absent // to read a resource takes no arguments
}

// member reports whether values of a schema have a member.
func member(text []byte, path reference) presence {
	if len(path) == 0 {
		return present
	}
	var s schema
	if len(text) == 0 || json.Unmarshal(text, &s) != nil || s.open() {
		return present
	}
	next, ok := s.Properties[path[0]]
	if !ok {
		return absent
	}
	found := member(next, path[1:])
	if found == present && !slices.Contains(s.Required, path[0]) {
		return maybe
	}
	return found
}

// open reports whether a schema may have members that its properties do not name.
func (s *schema) open() bool {
	if s.Ref != "" || s.AllOf != nil || s.AnyOf != nil || s.OneOf != nil || s.If != nil || s.Pattern != nil {
		return true
	}
	if s.Additional != nil {
		return string(s.Additional) != "false"
	}
	return s.Properties == nil
}
