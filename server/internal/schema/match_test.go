package schema_test

import (
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/server/internal/schema"
)

type (
	person struct {
		Name    string            `json:"name"`
		Age     int               `json:"age,omitempty"`
		Home    *address          `json:"home,omitempty"`
		Friends []person          `json:"friends,omitempty"`
		Labels  map[string]string `json:"labels,omitempty"`
		Extra   any               `json:"extra,omitempty"`
		Raw     jsontext.Value    `json:"raw,omitempty"`
		Hidden  string            `json:"-"`
	}
	address struct {
		City string     `json:"city"`
		IP   netip.Addr `json:"ip,omitzero"`
		At   time.Time  `json:"at,omitzero"`
		Key  []byte     `json:"key,omitempty"`
	}
)

const personSchema = `{"type":"object","$ref":"#/$defs/person","$defs":{
	"person":{"allOf":[{"$ref":"#/$defs/named"}],"properties":{
		"age":{"type":"integer"},
		"home":{"anyOf":[{"$ref":"#/$defs/address"},{"type":"null"}]},
		"friends":{"type":"array","items":{"$ref":"#/$defs/person"}},
		"labels":{"type":"object","properties":{"known":{"type":"integer"}}},
		"extra":{"type":"object","properties":{"deep":{"type":"string"}}},
		"raw":{"enum":[1,"x",null]}}},
	"named":{"properties":{"name":{"type":"string"}}},
	"address":{"type":"object","properties":{"city":{"type":["string","null"]},"ip":{"type":"string"},
		"at":{"type":"string","format":"date-time"},"key":{"type":"string","contentEncoding":"base64"}}}}}`

func TestMatch(t *testing.T) {
	s, err := schema.Parse(jsontext.Value(personSchema))
	require.NoError(t, err)
	require.NoError(t, s.Match(reflect.TypeFor[person](), false))
	require.NoError(t, s.Match(reflect.TypeFor[*person](), false))
	for _, exempt := range []reflect.Type{
		reflect.TypeFor[any](), reflect.TypeFor[map[string]any](), reflect.TypeFor[map[string]string](), reflect.TypeFor[jsontext.Value](),
		reflect.TypeFor[struct {
			All map[string]any `json:",embed"`
		}](),
	} {
		require.NoError(t, s.Match(exempt, false), exempt)
	}
}

func TestMatchFindsContradictions(t *testing.T) {
	object := func(members string) string { return `{"type":"object",` + members + `}` }
	type user struct {
		User struct {
			Name string `json:"name"`
		} `json:"user"`
	}
	type number struct {
		N int `json:"n"`
	}
	type list struct {
		L []number `json:"l"`
	}
	type texts struct {
		S string     `json:"s,omitempty"`
		A netip.Addr `json:"a,omitzero"`
		B []byte     `json:"b,omitempty"`
		T time.Time  `json:"t,omitzero"`
	}
	type base struct {
		ID string `json:"id"`
	}
	type derived struct {
		base
		N  int `json:"n,string"`
		Of int `json:"OF,case:ignore"`
	}
	for _, tt := range []struct {
		name, schema string
		typ          reflect.Type
		want         []string // parts of the error; none for a match
		unmatched    bool     // nothing is left of it where unmatched properties are allowed
	}{
		{"only the schema", object(`"properties":{"user":{"properties":{"name":{},"nmae":{}}}}`), reflect.TypeFor[user](),
			[]string{"/user/nmae: the schema has the property, the Go type struct { Name", "has no field for it: add one"}, true},
		{"only the type", object(`"properties":{"user":{"properties":{}}}`), reflect.TypeFor[user](),
			[]string{"/user/name: the schema has no such property, the Go type", `has the field Name: add it to the schema, or exclude the field (json:"-")`}, true},
		{"both", object(`"properties":{"m":{"type":"integer"}}`), reflect.TypeFor[number](), []string{"/n: the schema has no", "; /m: the schema has the"}, true},
		{"no properties", `{"type":"object"}`, reflect.TypeFor[number](), []string{"/n: "}, true},
		{"through a reference", object(`"properties":{"l":{"type":"array","items":{"$ref":"#/$defs/n"}}},"$defs":{"n":{"properties":{"m":{}}}}`),
			reflect.TypeFor[list](), []string{"/l/*/n: ", "/l/*/m: "}, true},
		{"through anyOf", object(`"properties":{"n":{}},"anyOf":[{"properties":{"m":{}}},{"required":["n"]}]`), reflect.TypeFor[number](), []string{"/m: "}, true},
		{"through if", object(`"properties":{"n":{}},"if":{},"then":{"properties":{"m":{}}},"else":{"properties":{"o":{}}}`), reflect.TypeFor[number](), []string{"/m: ", "/o: "}, true},
		{"through dependentSchemas", object(`"properties":{"n":{}},"dependentSchemas":{"n":{"properties":{"m":{}}}}`), reflect.TypeFor[number](), []string{"/m: "}, true},
		{"through items of older drafts", `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"l":{"items":[{"properties":{"m":{}}}]}}}`,
			reflect.TypeFor[list](), []string{"/l/*/n", "/l/*/m"}, true},
		{"a property that may not be there", object(`"properties":{"n":{},"m":false}`), reflect.TypeFor[number](), nil, false},
		{"a schema that says nothing", object(`"properties":{"user":{"title":"any"}}`), reflect.TypeFor[user](), nil, false},
		{"a schema that says that it is an object", object(`"properties":{"user":{"type":"object"}}`), reflect.TypeFor[user](), []string{"/user/name: "}, true},
		{"patternProperties", object(`"patternProperties":{"^n$":{"type":"integer"}}`), reflect.TypeFor[number](), nil, false},
		{"patternProperties of another type", object(`"patternProperties":{"^n$":{"type":"string"}}`), reflect.TypeFor[number](), []string{"/n: the schema has string"}, false},
		{"additionalProperties", object(`"additionalProperties":{"type":"integer"}`), reflect.TypeFor[number](), []string{"/n: "}, true},
		{"embedded, and options", object(`"properties":{"id":{},"n":{"type":"string"},"of":{}}`), reflect.TypeFor[derived](), []string{"/OF: "}, true},

		{"string against integer", object(`"properties":{"n":{"type":"string"}}`), reflect.TypeFor[number](),
			[]string{"/n: the schema has string, the Go type int is integer: change one of them"}, false},
		{"choices against integer", object(`"properties":{"n":{"enum":["a","b"]}}`), reflect.TypeFor[number](), []string{"/n: the schema has string"}, false},
		{"const against integer", object(`"properties":{"n":{"const":true}}`), reflect.TypeFor[number](), []string{"/n: the schema has boolean"}, false},
		{"null alone", object(`"properties":{"n":{"type":"null"}}`), reflect.TypeFor[number](), []string{"/n: the schema has null"}, false},
		{"a number may be an integer", object(`"properties":{"n":{"type":["number","null"]}}`), reflect.TypeFor[number](), nil, false},
		{"one of two types", object(`"properties":{"n":{"type":["string","integer"]}}`), reflect.TypeFor[number](), nil, false},
		{"one of two alternatives", object(`"properties":{"n":{"oneOf":[{"type":"string"},{"type":"integer"}]}}`), reflect.TypeFor[number](), nil, false},
		{"none of two alternatives", object(`"properties":{"n":{"oneOf":[{"type":"string"},{"type":"boolean"}]}}`), reflect.TypeFor[number](),
			[]string{"/n: the schema has boolean or string"}, false},
		{"alternatives of the object", object(`"oneOf":[{"properties":{"n":{"type":"string"}}},{"properties":{"n":{"type":"integer"}}}]`), reflect.TypeFor[number](), nil, false},
		{"alternatives of the object, none fits", object(`"oneOf":[{"properties":{"n":{"type":"string"}}},{"properties":{"n":{"type":"array"}}}]`),
			reflect.TypeFor[number](), []string{"/n: the schema has string or array"}, false},
		{"integer against strings of all sorts", object(`"properties":{"s":{"type":"integer"},"a":{"type":"integer"},"b":{"type":"array"},"t":{"type":"number"}}`),
			reflect.TypeFor[texts](), []string{"/s: ", "; /a: the schema has integer, the Go type netip.Addr is string", "; /b: ", "; /t: "}, false},
		{"object against list", object(`"properties":{"l":{"type":"object"}}`), reflect.TypeFor[list](), []string{"/l: the schema has object"}, false},
		{"array against an object", `{"type":"array"}`, reflect.TypeFor[number](), []string{"/: the schema has array"}, false},
		{"string against a map", object(`"properties":{"m":{"type":"string"}}`), reflect.TypeFor[struct {
			M map[string]int `json:"m"`
		}](), []string{"/m: the schema has string"}, false},
		{"no JSON form", object(`"properties":{"d":{"type":"integer"}}`), reflect.TypeFor[struct {
			D time.Duration `json:"d"`
		}](), []string{"/d: the Go type time.Duration has no JSON form"}, false},
		{"many", object(`"properties":{"a":{},"b":{},"c":{},"d":{},"e":{},"f":{},"g":{},"h":{},"i":{},"j":{}}`), reflect.TypeFor[struct{}](),
			[]string{"/a: ", "/h: ", "; and 2 more"}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := schema.Parse(jsontext.Value(tt.schema))
			require.NoError(t, err)
			err = s.Match(tt.typ, false)
			if tt.want == nil {
				require.NoError(t, err)
				return
			}
			for _, want := range tt.want {
				require.ErrorContains(t, err, want)
			}
			if tt.unmatched {
				require.NoError(t, s.Match(tt.typ, true))
			} else {
				require.Error(t, s.Match(tt.typ, true), "no property, but a type")
			}
		})
	}
}

// Both the schema and the type may be recursive, also where they contradict each other.
func TestMatchOfRecursiveTypesEnds(t *testing.T) {
	type node struct {
		Next *node   `json:"next,omitempty"`
		All  []*node `json:"all,omitempty"`
	}
	for raw, want := range map[string]string{
		`{"type":"object","properties":{"next":{"$ref":"#"},"all":{"items":{"$ref":"#"}}}}`:                                                "",
		`{"type":"object","$dynamicAnchor":"n","properties":{"next":{"$dynamicRef":"#n"},"all":{"items":{"$ref":"#"}}}}`:                   "",
		`{"type":"object","allOf":[{"anyOf":[{"$ref":"#"}]}],"properties":{"next":{"$ref":"#"},"all":{}}}`:                                 "",
		`{"type":"object","properties":{"next":{"$ref":"#/$defs/x"},"all":{}},"$defs":{"x":{"properties":{"next":{"$ref":"#/$defs/x"}}}}}`: "/next/all: ",
	} {
		s, err := schema.Parse(jsontext.Value(raw))
		require.NoError(t, err)
		if err = s.Match(reflect.TypeFor[node](), false); want == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, want)
		}
	}
}

// Each definition refers to the next one twice. A walk along all 2^60 ways to the last one never ends.
func TestMatchLooksAtADefinitionOnce(t *testing.T) {
	var defs strings.Builder
	for i := range 60 {
		fmt.Fprintf(&defs, `"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]},`, i, i+1, i+1)
	}
	for last, want := range map[string]string{
		`{"type":"object"}`:     "",
		`{"type":"string"}`:     "/: the schema has string",
		`{"$ref":"#/$defs/d0"}`: "",
	} {
		s, err := schema.Parse(jsontext.Value(`{"$ref":"#/$defs/d0","$defs":{` + defs.String() + `"d60":` + last + `}}`))
		require.NoError(t, err)
		err = s.Match(reflect.TypeFor[map[string]any](), false)
		if want == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, want)
		}
	}
}
