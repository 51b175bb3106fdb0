package schema_test

import (
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/server/internal/schema"
)

type tagged struct {
	Name   string         `json:"name" title:"Name" description:"who" minLength:"2" maxLength:"5" pattern:"^[a-z]+$" examples:"ada,bob"`
	Mail   *string        `json:"mail,omitempty" format:"email"`
	Size   string         `json:"size" enum:"s,l" default:"s"`
	Maybe  *string        `json:"maybe,omitempty" enum:"a,b"`
	Level  int8           `json:"level,omitempty" enum:"1,2,3" default:"2"`
	Count  uint8          `json:"count,omitempty" minimum:"3" multipleOf:"3"`
	Share  float64        `json:"share,omitempty" exclusiveMinimum:"0" exclusiveMaximum:"1" default:"0.25"`
	On     bool           `json:"on" default:"true"`
	Tags   []string       `json:"tags" enum:"x,y,z" default:"x,y" minItems:"1" maxItems:"2" uniqueItems:"true"`
	Sizes  []int          `json:"sizes,omitempty" default:"[1,2]"`
	Labels map[string]int `json:"labels,omitempty" maxProperties:"1" default:"{\"a\":1}"`
	Raw    any            `json:"raw,omitempty" title:"Anything" default:"[1, null]"`
	At     time.Time      `json:"at,omitzero" default:"2026-01-02T03:04:05Z"`
	Addr   netip.Addr     `json:"addr,omitzero" format:"ipv4"`
	Old    string         `json:"old,omitempty" deprecated:"true" readOnly:"true" writeOnly:"false"`
}

func TestTagsAreKeywords(t *testing.T) {
	s, err := schema.For(reflect.TypeFor[tagged]())
	require.NoError(t, err)
	require.JSONEq(t, `{"type":"object","additionalProperties":false,"required":["name"],"properties":{
		"name":{"type":"string","title":"Name","description":"who","minLength":2,"maxLength":5,"pattern":"^[a-z]+$","examples":["ada","bob"]},
		"mail":{"type":["null","string"],"format":"email"},
		"size":{"type":"string","enum":["s","l"],"default":"s"},
		"maybe":{"type":["null","string"],"enum":["a","b",null]},
		"level":{"type":"integer","minimum":-128,"maximum":127,"enum":[1,2,3],"default":2},
		"count":{"type":"integer","minimum":3,"maximum":255,"multipleOf":3},
		"share":{"type":"number","exclusiveMinimum":0,"exclusiveMaximum":1,"default":0.25},
		"on":{"type":"boolean","default":true},
		"tags":{"type":"array","items":{"type":"string","enum":["x","y","z"]},"default":["x","y"],"minItems":1,"maxItems":2,"uniqueItems":true},
		"sizes":{"type":"array","items":{"type":"integer"},"default":[1,2]},
		"labels":{"type":"object","additionalProperties":{"type":"integer"},"maxProperties":1,"default":{"a":1}},
		"raw":{"title":"Anything","default":[1,null]},
		"at":{"type":"string","format":"date-time","default":"2026-01-02T03:04:05Z"},
		"addr":{"type":"string","format":"ipv4"},
		"old":{"type":"string","deprecated":true,"readOnly":true}}}`, string(s.JSON()))
	require.False(t, s.ProvenByType(), "a value of the type may break the schema")

	for member, want := range map[string]string{
		`"name":"a"`:                          "/name: must have at least 2 characters",
		`"name":"abcdef"`:                     "/name: must have at most 5 characters",
		`"name":"Ada"`:                        "/name: must match the pattern",
		`"name":"ada","mail":"x"`:             "/mail: must be a valid email",
		`"name":"ada","size":"m"`:             `/size: must be one of "s", "l"`,
		`"name":"ada","maybe":"c"`:            "/maybe: must be one of",
		`"name":"ada","level":4`:              "/level: must be one of",
		`"name":"ada","count":2`:              "/count: must be at least 3",
		`"name":"ada","count":4`:              "/count: must be a multiple of 3",
		`"name":"ada","share":1`:              "/share: must be less than 1",
		`"name":"ada","tags":[]`:              "/tags: must have at least 1",
		`"name":"ada","tags":["x","x"]`:       "/tags:",
		`"name":"ada","tags":["w"]`:           "/tags/0: must be one of",
		`"name":"ada","labels":{"a":1,"b":2}`: "/labels:",
		`"name":"ada","addr":"::1"`:           "/addr: must be a valid ipv4",
		`"size":"s"`:                          `required`,
	} {
		var v tagged
		faults := s.Fill(jsontext.Value(`{`+member+`}`), &v)
		require.NotEmpty(t, faults, member)
		require.Contains(t, faults[0].String(), want, member)
		require.Zero(t, v, member)
	}
}

func TestDefaultsOfMissingMembers(t *testing.T) {
	s, err := schema.For(reflect.TypeFor[tagged]())
	require.NoError(t, err)
	var v tagged
	require.Empty(t, s.Fill(jsontext.Value(`{"name":"ada"}`), &v))
	require.Equal(t, tagged{
		Name: "ada", Size: "s", Level: 2, Share: 0.25, On: true, Tags: []string{"x", "y"}, Sizes: []int{1, 2},
		Labels: map[string]int{"a": 1}, Raw: []any{1.0, nil}, At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
	}, v)

	v = tagged{}
	require.Empty(t, s.Fill(jsontext.Value(`{"name":"ada","size":"l","level":1,"on":false,"tags":["z"],"sizes":[],"labels":{},"raw":null}`), &v))
	require.Equal(t, tagged{
		Name: "ada", Size: "l", Level: 1, Share: 0.25, Tags: []string{"z"}, Sizes: []int{}, Labels: map[string]int{},
		At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
	}, v, "what is given is not overwritten, whatever it is")
}

// A type with defaults is still decoded in one typed pass. Defaults apply at every depth.
func TestDefaultsAtAllDepths(t *testing.T) {
	type inner struct {
		N int `json:"n" default:"7"`
		M int `json:"m"`
	}
	type outer struct {
		inner
		List []inner          `json:"list"`
		Map  map[string]inner `json:"map"`
		Ptr  *inner           `json:"ptr,omitempty"`
		None *inner           `json:"none,omitempty"`
		Half inner            `json:"half" default:"{\"m\":1}"`
	}
	s, err := schema.For(reflect.TypeFor[outer]())
	require.NoError(t, err)
	require.True(t, s.ProvenByType(), "defaults refuse nothing")
	var v outer
	require.Empty(t, s.Fill(jsontext.Value(`{"m":1,"list":[{"m":2},{"n":0,"m":3}],"map":{"a":{"m":4}},"ptr":{"m":5.0}}`), &v))
	require.Equal(t, outer{
		inner: inner{7, 1}, List: []inner{{7, 2}, {0, 3}}, Map: map[string]inner{"a": {7, 4}}, Ptr: &inner{7, 5}, Half: inner{7, 1},
	}, v)
	require.NotEmpty(t, s.Fill(jsontext.Value(`{"list":[],"map":{}}`), &v), "m has no default")
	require.NotEmpty(t, s.Fill(jsontext.Value(`{"m":1,"m":2,"list":[],"map":{}}`), &v), "a name that is there twice")

	out, err := schema.ForOutput(reflect.TypeFor[inner]())
	require.NoError(t, err)
	require.JSONEq(t, `{"type":"object","additionalProperties":false,"required":["n","m"],"properties":{
		"n":{"type":"integer","default":7},"m":{"type":"integer"}}}`, string(out.JSON()), "an output always has it")
}

// Tags that contradict their field, or are not supported, are errors that name both.
func TestTagErrors(t *testing.T) {
	type base struct {
		A string `json:"a"`
	}
	for want, typ := range map[string]reflect.Type{
		`field n: tag minLength does not fit the type int, which is integer: it is for string`: reflect.TypeFor[struct {
			N int `json:"n" minLength:"1"`
		}](),
		`field in.s: tag minimum does not fit the type string, which is string: it is for number and integer`: reflect.TypeFor[struct {
			In struct {
				S string `json:"s" minimum:"1"`
			} `json:"in"`
		}](),
		`tag pattern does not fit the type []uint8, which is base64`: reflect.TypeFor[struct {
			B []byte `pattern:"x"`
		}](),
		`tag minLength does not fit the type interface {}, of which nothing is known`: reflect.TypeFor[struct {
			B any `minLength:"1"`
		}](),
		`tag minLength does not fit the type []string, which is array`: reflect.TypeFor[struct {
			B []string `minLength:"1"`
		}](),
		`tag minLength:"-1": must be an integer that is not negative`: reflect.TypeFor[struct {
			S string `minLength:"-1"`
		}](),
		`tag minimum:"one": must be a number`: reflect.TypeFor[struct {
			N int `minimum:"one"`
		}](),
		`tag minimum:"9007199254740993": must be a number that a float64 holds exactly`: reflect.TypeFor[struct {
			N int64 `minimum:"9007199254740993"`
		}](),
		`tag minimum:"-1": the Go type begins at 0`: reflect.TypeFor[struct {
			N uint `minimum:"-1"`
		}](),
		`tag maximum:"200": the Go type ends at 127`: reflect.TypeFor[struct {
			N int8 `maximum:"200"`
		}](),
		`tag minItems:"1": the Go type has 2 already`: reflect.TypeFor[struct {
			N [2]int `minItems:"1"`
		}](),
		`tag multipleOf:"0": must be greater than 0`: reflect.TypeFor[struct {
			N int `multipleOf:"0"`
		}](),
		`tag minimum: 3 leaves nothing below the maximum 2`: reflect.TypeFor[struct {
			N int `minimum:"3" maximum:"2"`
		}](),
		`tag exclusiveMinimum: 3 leaves nothing below the maximum 3`: reflect.TypeFor[struct {
			N int `exclusiveMinimum:"3" maximum:"3"`
		}](),
		`tag minLength: 3 is more than the maxLength 2`: reflect.TypeFor[struct {
			S string `minLength:"3" maxLength:"2"`
		}](),
		`tag pattern:"(": is not a regular expression (RE2)`: reflect.TypeFor[struct {
			S string `pattern:"("`
		}](),
		`tag format:"mail": is not known: there are date`: reflect.TypeFor[struct {
			S string `format:"mail"`
		}](),
		`tag format:"date": the Go type has the format date-time`: reflect.TypeFor[struct {
			T time.Time `format:"date"`
		}](),
		`tag uniqueItems:"yes": must be true or false`: reflect.TypeFor[struct {
			S []string `uniqueItems:"yes"`
		}](),
		`tag enum: "a," has an empty choice`: reflect.TypeFor[struct {
			S string `enum:"a,"`
		}](),
		`tag enum: "a, b" has a space before or after a comma`: reflect.TypeFor[struct {
			S string `enum:"a, b"`
		}](),
		`tag enum: the choice "a" is there twice`: reflect.TypeFor[struct {
			S string `enum:"a,a"`
		}](),
		`tag enum: "one" is not valid JSON`: reflect.TypeFor[struct {
			N int `enum:"1,one"`
		}](),
		`tag enum: the choice 300 must be at most 127`: reflect.TypeFor[struct {
			N int8 `enum:"1,300"`
		}](),
		`tag enum: the choice "abc" must have at most 2 characters`: reflect.TypeFor[struct {
			S string `enum:"a,abc" maxLength:"2"`
		}](),
		`tag enum: the choice "x" is not accepted by netip.Addr`: reflect.TypeFor[struct {
			S netip.Addr `enum:"x"`
		}](),
		`tag enum: does not fit the type map[string]int`: reflect.TypeFor[struct {
			S map[string]int `enum:"a"`
		}](),
		`tag default: default "m" must be one of "s", "l"`: reflect.TypeFor[struct {
			S string `enum:"s,l" default:"m"`
		}](),
		`tag default: default "ten" is not valid JSON`: reflect.TypeFor[struct {
			N int `default:"ten"`
		}](),
		`tag default: default "1.5"`: reflect.TypeFor[struct {
			N int `default:"1.5"`
		}](),
		`tag default: default "null"`: reflect.TypeFor[struct {
			N int `default:"null"`
		}](),
		`tag default: default "{}" missing required property "a"`: reflect.TypeFor[struct {
			N base `default:"{}"`
		}](),
		`tag examples: the example 5 must be at most 3`: reflect.TypeFor[struct {
			N int `maximum:"3" examples:"1,5"`
		}](),
		`tag required is not supported: a field is required unless`: reflect.TypeFor[struct {
			N int `required:"true"`
		}](),
		`tag oneOf is not supported: write the whole schema by hand`: reflect.TypeFor[struct {
			N int `oneOf:"1"`
		}](),
		`tag minlength is not supported: did you mean minLength?`: reflect.TypeFor[struct {
			N string `minlength:"1"`
		}](),
		`tag max_items is not supported: did you mean maxItems?`: reflect.TypeFor[struct {
			N []string `max_items:"1"`
		}](),
		`tag jsonschema_description is not supported`: reflect.TypeFor[struct {
			N string `jsonschema_description:"x"`
		}](),
		`the tag is the description alone`: reflect.TypeFor[struct {
			N string `jsonschema:"required,minLength=1"`
		}](),
		`tag description is given twice`: reflect.TypeFor[struct {
			N string `jsonschema:"a" description:"b"`
		}](),
		`the struct tag is malformed at enum:a`: reflect.StructOf([]reflect.StructField{
			{Name: "N", Type: reflect.TypeFor[string](), Tag: `json:"n" enum:a`},
		}),
		`field base: tag title is on an embedded struct`: reflect.TypeFor[struct {
			base `title:"x"`
		}](),
	} {
		_, err := schema.For(typ)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "schema of struct")
	}
	_, err := schema.For(reflect.TypeFor[struct {
		N string `json:"n" yaml:"n" validate:"min=1" db:"n" min:"3"`
	}]())
	require.NoError(t, err, "tags of other packages are none of ours")
}
