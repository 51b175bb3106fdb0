package schema_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/server/internal/schema"
)

func TestParseForm(t *testing.T) {
	property := func(p string) string { return `{"type":"object","properties":{"p":` + p + `}}` }
	for name, tt := range map[string]struct{ raw, want string }{
		"empty":          {`{"type":"object","properties":{}}`, ""},
		"all keywords":   {`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","title":"t","properties":{},"required":[]}`, ""},
		"string":         {property(`{"type":"string","minLength":1,"maxLength":2,"format":"email","default":"a"}`), ""},
		"number":         {property(`{"type":"number","minimum":1,"maximum":2}`), ""},
		"integer":        {property(`{"type":"integer"}`), ""},
		"boolean":        {property(`{"type":"boolean","default":true}`), ""},
		"enum":           {property(`{"type":"string","enum":["a"],"enumNames":["A"]}`), ""},
		"titles":         {property(`{"type":"string","oneOf":[{"const":"a","title":"A"}]}`), ""},
		"several":        {property(`{"type":"array","items":{"type":"string","enum":["a"]},"minItems":1}`), ""},
		"several titles": {property(`{"type":"array","items":{"anyOf":[{"const":"a","title":"A"}]}}`), ""},

		"nothing":        {``, "unexpected end"},
		"no object":      {`[]`, `the root must have "type": "object"`},
		"another type":   {`{"type":"string","properties":{}}`, `the root must have "type": "object"`},
		"no properties":  {`{"type":"object"}`, `the root must have "properties"`},
		"a keyword":      {`{"type":"object","properties":{},"allOf":[]}`, `"allOf" is no keyword of a form`},
		"no type":        {property(`{}`), "field p: must be a string"},
		"no schema":      {property(`true`), "field p: must be a string"},
		"an object":      {property(`{"type":"object"}`), "field p: must be a string"},
		"two types":      {property(`{"type":["string","null"]}`), "field p: must be a string"},
		"any array":      {property(`{"type":"array","items":{"type":"string"}}`), "an array of a form holds choices"},
		"no items":       {property(`{"type":"array"}`), "an array of a form holds choices"},
		"a reference":    {property(`{"type":"string","$ref":"#"}`), `"$ref" does not fit into a form`},
		"a bad keyword":  {property(`{"type":"string","minLength":-1}`), "minLength"},
		"required thing": {`{"type":"object","properties":{},"required":"p"}`, "required"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := schema.ParseForm(jsontext.Value(tt.raw))
			if tt.want == "" {
				require.NoError(t, err)
				require.NoError(t, s.RequireObject())
				return
			}
			require.ErrorContains(t, err, tt.want)
			require.Nil(t, s)
		})
	}
}

// The formats of a form are checked, unlike those of a schema that is written by hand.
func TestFormatsOfFormsAreChecked(t *testing.T) {
	for format, values := range map[string][2]string{
		"email":     {"a@b.example", "nobody"},
		"uri":       {"https://example.com/x", "not a uri"},
		"date":      {"2026-02-03", "2026-02-31"},
		"date-time": {"2026-02-03T04:05:06Z", "yesterday"},
	} {
		s, err := schema.ParseForm(jsontext.Value(`{"type":"object","properties":{"p":{"type":"string","format":"` + format + `"}}}`))
		require.NoError(t, err)
		require.Empty(t, s.Faults(jsontext.Value(`{"p":"`+values[0]+`"}`)), format)
		require.NotEmpty(t, s.Faults(jsontext.Value(`{"p":"`+values[1]+`"}`)), format)
	}
}

type level string

func TestFormFor(t *testing.T) {
	type all struct {
		A bool      `json:"a"`
		B int       `json:"b,omitempty"`
		C uint8     `json:"c"`
		D float32   `json:"d"`
		E level     `json:"e" enum:"x,y" default:"y"`
		F []string  `json:"f" enum:"x,y" default:"x,y" title:"Eff"`
		G time.Time `json:"g" jsonschema:"when"`
		H *string   `json:"h,omitempty" format:"uri"`
		I uint64    `json:"i"`
	}
	s, err := schema.FormFor(reflect.TypeFor[all]())
	require.NoError(t, err)
	require.Equal(t, `{"type":"object","properties":{"a":{"type":"boolean"},"b":{"type":"integer"},`+
		`"c":{"type":"integer","minimum":0,"maximum":255},"d":{"type":"number"},"e":{"type":"string","enum":["x","y"],"default":"y"},`+
		`"f":{"type":"array","title":"Eff","items":{"type":"string","enum":["x","y"]},"default":["x","y"]},`+
		`"g":{"type":"string","description":"when","format":"date-time"},"h":{"type":"string","format":"uri"},"i":{"type":"integer","minimum":0}},`+
		`"required":["a","c","d","e","f","g","i"]}`, string(s.JSON()))
	var v all
	require.Empty(t, s.Fill(jsontext.Value(`{"a":true,"c":2e0,"d":1,"e":"x","f":[],"g":"2026-01-02T03:04:05Z","h":"x:y","i":5,"z":{"deep":[1.0]}}`), &v))
	require.Equal(t, uint8(2), v.C)
	require.Equal(t, "x:y", *v.H)
	require.NotEmpty(t, s.Fill(jsontext.Value(`{"a":true,"c":256,"d":1,"e":"x","f":[],"g":"2026-01-02T03:04:05Z","i":5}`), &v))

	for name, tt := range map[string]struct {
		typ  reflect.Type
		want string
	}{
		"no struct":  {reflect.TypeFor[string](), "a form is a struct"},
		"a pointer":  {reflect.TypeFor[*all](), "a form is a struct"},
		"nested":     {reflect.TypeFor[struct{ A struct{} }](), "field A: type struct {} does not fit"},
		"a map":      {reflect.TypeFor[struct{ A map[string]string }](), "field A: type map[string]string does not fit"},
		"anything":   {reflect.TypeFor[struct{ A any }](), "field A"},
		"bytes":      {reflect.TypeFor[struct{ A []byte }](), "field A: type []uint8 does not fit"},
		"numbers":    {reflect.TypeFor[struct{ A []int }](), "field A: type []int does not fit"},
		"no choices": {reflect.TypeFor[struct{ A []string }](), "needs an enum"},
		"a duration": {reflect.TypeFor[struct{ A time.Duration }](), "field A: time.Duration"},
		"empty choice": {reflect.TypeFor[struct {
			A string `enum:"a,"`
		}](), "empty choice"},
		"number choices": {reflect.TypeFor[struct {
			A int `enum:"1"`
		}](), "only strings"},
		"both": {reflect.TypeFor[struct {
			A string `enum:"a" format:"email"`
		}](), "only strings"},
		"format": {reflect.TypeFor[struct {
			A string `format:"ipv4"`
		}](), "a string may have email, uri, date, date-time"},
		"number format": {reflect.TypeFor[struct {
			A int `format:"email"`
		}](), "tag format does not fit the type int"},
		"default choice": {reflect.TypeFor[struct {
			A string `enum:"a" default:"b"`
		}](), `default "b" must be`},
		"default type": {reflect.TypeFor[struct {
			A int `default:"x"`
		}](), `default "x" is not valid JSON`},
		"default range": {reflect.TypeFor[struct {
			A int8 `default:"300"`
		}](), `default "300" must be at most 127`},
		"default mail": {reflect.TypeFor[struct {
			A string `format:"email" default:"x"`
		}](), `must be a valid email`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := schema.FormFor(tt.typ)
			require.ErrorContains(t, err, tt.want)
		})
	}
}
