package schema_test

import (
	"reflect"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/server/internal/schema"
)

func TestHeaders(t *testing.T) {
	tests := []struct {
		name, raw string
		want      []schema.Header
	}{
		{"none", `{"type":"object","properties":{"a":{"type":"string"}}}`, nil},
		{"all types, nested, ordered by path", `{"properties":{
			"b":{"type":"integer","x-mcp-header":"Max-Rows"},
			"a":{"type":"object","properties":{"x":{"type":"boolean","x-mcp-header":"!#$%&'*+-.^_` + "`" + `|~9"},"y":{"properties":{"z":{"type":"string","x-mcp-header":"z"}}}}}}}`,
			[]schema.Header{
				{Name: "!#$%&'*+-.^_`|~9", Path: []string{"a", "x"}, Type: "boolean"},
				{Name: "z", Path: []string{"a", "y", "z"}, Type: "string"},
				{Name: "Max-Rows", Path: []string{"b"}, Type: "integer"},
			}},
		{"deep siblings", `{"properties":{"a":{"properties":{"b":{"properties":{"c":{"properties":{
			"d":{"type":"string","x-mcp-header":"D"},"e":{"type":"string","x-mcp-header":"E"}}}}}}}}}`,
			[]schema.Header{
				{Name: "D", Path: []string{"a", "b", "c", "d"}, Type: "string"},
				{Name: "E", Path: []string{"a", "b", "c", "e"}, Type: "string"},
			}},
		{"beside oneOf is fine, $ref too", `{"oneOf":[{}],"properties":{"a":{"type":"string","x-mcp-header":"A","$ref":"#/$defs/a"}},"$defs":{"a":{}}}`,
			[]schema.Header{{Name: "A", Path: []string{"a"}, Type: "string"}}},
		{"properties with odd names", `{"properties":{"properties":{"type":"string","x-mcp-header":"A"},"items":{"properties":{"a/b":{"type":"string","x-mcp-header":"B"}}}}}`,
			[]schema.Header{
				{Name: "B", Path: []string{"items", "a/b"}, Type: "string"},
				{Name: "A", Path: []string{"properties"}, Type: "string"},
			}},
		{"a property of this name is no annotation", `{"properties":{"x-mcp-header":{"type":"string"}},"$defs":{"x-mcp-header":{}}}`, nil},
		{"data is no annotation", `{"default":{"x-mcp-header":1},"enum":[{"x-mcp-header":1}],"examples":[{"x-mcp-header":1}]}`, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s, err := schema.Parse(jsontext.Value(test.raw))
			require.NoError(t, err)
			assert.Equal(t, test.want, s.Headers())
		})
	}
}

func TestBadHeaderAnnotationsAreErrors(t *testing.T) {
	annotated := func(typ, name string) string {
		return `{"properties":{"a":{"type":` + typ + `,"x-mcp-header":` + name + `}}}`
	}
	const good = `{"type":"string","x-mcp-header":"A"}`
	tests := []struct{ name, raw, want string }{
		{"empty", annotated(`"string"`, `""`), "token"},
		{"no string", annotated(`"string"`, `true`), "token"},
		{"space", annotated(`"string"`, `"a b"`), "token"},
		{"colon", annotated(`"string"`, `"a:b"`), "token"},
		{"line break", annotated(`"string"`, `"a\r\nX: y"`), "token"},
		{"not ASCII", annotated(`"string"`, `"é"`), "token"},
		{"number", annotated(`"number"`, `"A"`), "type"},
		{"object", annotated(`"object"`, `"A"`), "type"},
		{"two types", annotated(`["string","null"]`, `"A"`), "type"},
		{"no type", `{"properties":{"a":{"x-mcp-header":"A"}}}`, "type"},
		{"twice", `{"properties":{"a":{"type":"string","x-mcp-header":"Region"},"b":{"properties":{"c":{"type":"string","x-mcp-header":"REGION"}}}}}`,
			`/properties/b/properties/c`},
		{"root", good, "only allowed"},
		{"items", `{"properties":{"a":{"items":` + good + `}}}`, "/properties/a/items"},
		{"below items", `{"items":{"properties":{"a":` + good + `}}}`, "/items/properties/a"},
		{"prefixItems", `{"prefixItems":[` + good + `]}`, "/prefixItems/0"},
		{"oneOf", `{"oneOf":[{},{"properties":{"a":` + good + `}}]}`, "/oneOf/1/properties/a"},
		{"anyOf", `{"properties":{"a":{"anyOf":[` + good + `]}}}`, "/anyOf/0"},
		{"allOf", `{"allOf":[{"properties":{"a":` + good + `}}]}`, "/allOf/0"},
		{"not", `{"not":{"properties":{"a":` + good + `}}}`, "/not"},
		{"if", `{"if":{"properties":{"a":` + good + `}}}`, "/if"},
		{"then", `{"then":{"properties":{"a":` + good + `}}}`, "/then"},
		{"else", `{"else":{"properties":{"a":` + good + `}}}`, "/else"},
		{"$defs", `{"$defs":{"a":` + good + `}}`, "/$defs/a"},
		{"via $ref", `{"properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"properties":{"b":` + good + `}}}}`, "/$defs/a/properties/b"},
		{"definitions", `{"definitions":{"a":` + good + `}}`, "/definitions/a"},
		{"patternProperties", `{"patternProperties":{"a":` + good + `}}`, "/patternProperties/a"},
		{"additionalProperties", `{"additionalProperties":` + good + `}`, "/additionalProperties"},
		{"dependentSchemas", `{"dependentSchemas":{"a":{"properties":{"a":` + good + `}}}}`, "/dependentSchemas/a"},
		{"unknown keyword", `{"x-more":{"properties":{"a":` + good + `}}}`, "/x-more/properties/a"},
		{"contains", `{"contains":` + good + `}`, "/contains"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := schema.Parse(jsontext.Value(test.raw))
			require.Error(t, err)
			assert.Contains(t, err.Error(), "x-mcp-header")
			assert.Contains(t, err.Error(), test.want)
		})
	}
}

func TestHeadersByTag(t *testing.T) {
	s, err := schema.For(reflect.TypeFor[struct {
		Region string `json:"region" mcpheader:"Region" jsonschema:"where"`
		Page   struct {
			Size int `json:"size,omitempty" mcpheader:"Page-Size"`
		} `json:"page"`
	}]())
	require.NoError(t, err)
	assert.Contains(t, string(s.JSON()), `"region":{"type":"string","description":"where","x-mcp-header":"Region"}`)
	assert.Equal(t, []schema.Header{
		{Name: "Page-Size", Path: []string{"page", "size"}, Type: "integer"},
		{Name: "Region", Path: []string{"region"}, Type: "string"},
	}, s.Headers())

	bad := map[string]reflect.Type{
		"/properties/P": reflect.TypeFor[struct {
			P *string `mcpheader:"P"`
		}](),
		"/properties/F": reflect.TypeFor[struct {
			F float64 `mcpheader:"F"`
		}](),
		"/properties/T": reflect.TypeFor[struct {
			T string `mcpheader:"a b"`
		}](),
		"/properties/L/items": reflect.TypeFor[struct {
			L []struct {
				A string `mcpheader:"A"`
			}
		}](),
		"/properties/B": reflect.TypeFor[struct {
			A string `mcpheader:"same"`
			B string `mcpheader:"Same"`
		}](),
	}
	for where, typ := range bad {
		_, err := schema.For(typ)
		require.Error(t, err, where)
		assert.Contains(t, err.Error(), where)
	}
}
