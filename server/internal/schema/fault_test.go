package schema_test

import (
	"fmt"
	"math"
	"net/netip"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/server/internal/schema"
)

func TestFaultMessages(t *testing.T) {
	tests := []struct {
		schema, value string
		want          []string // "path: message"
	}{
		{`{"type":"integer"}`, `"5"`, []string{"must be an integer, got string"}},
		{`{"type":["null","string","array"]}`, `1`, []string{"must be a string or an array or null, got number"}},
		{`{"type":"string"}`, `null`, []string{"must be a string, got null"}},
		{`{"required":["b","a"],"additionalProperties":false,"properties":{"b":{},"a":{}}}`, `{"citty":1,"zz":2}`,
			[]string{`missing required property "a"`, `missing required property "b"`, `unknown property "citty"`, `unknown property "zz"`}},
		{`{"items":{"properties":{"a/b~c":{"type":"string"}}}}`, `[{},{"a/b~c":1}]`, []string{"/1/a~1b~0c: must be a string, got number"}},
		{`{"items":{"type":"null"}}`, `[null,1,2,null,3,4,5,6,7,8,9,10]`, []string{
			"/1: must be null, got number", "/2: must be null, got number", "/4: must be null, got number", "/5: must be null, got number",
			"/6: must be null, got number", "/7: must be null, got number", "/8: must be null, got number", "/9: must be null, got number",
			"/10: must be null, got number", "/11: must be null, got number"}},
		{`{"enum":["a",1,null,true,{"x":1}]}`, `"secret"`, []string{`must be one of "a", 1, null, true, the object the schema gives`}},
		{`{"enum":["only"]}`, `0`, []string{`must be "only"`}},
		{`{"const":1.50}`, `1`, []string{"must be 1.50"}},
		{`{"properties":{"a":false}}`, `{"a":1}`, []string{"/a: is not allowed here"}},
		{`{"not":{"type":"string"}}`, `"x"`, []string{`must not match the schema under "not"`}},
		{`{"minimum":0.5}`, `0`, []string{"must be at least 0.5"}},
		{`{"maximum":9007199254740993}`, `9007199254740994`, []string{"must be at most 9007199254740993"}},
		{`{"maximum":9007199254740993}`, `9007199254740993`, nil},
		{`{"exclusiveMinimum":1}`, `1`, []string{"must be greater than 1"}},
		{`{"exclusiveMaximum":1}`, `1`, []string{"must be less than 1"}},
		{`{"multipleOf":0.01}`, `0.001`, []string{"must be a multiple of 0.01"}},
		{`{"multipleOf":0.01}`, `19.99`, nil},
		{`{"type":"integer"}`, `2.0`, nil},
		{`{"type":"integer"}`, `2e3`, nil},
		{`{"type":"integer"}`, `2.5`, []string{"must be an integer, got number"}},
		{`{"minLength":2}`, `"é"`, []string{"must have at least 2 characters, has 1"}},
		{`{"maxLength":1}`, `"ab"`, []string{"must have at most 1 characters, has 2"}},
		{`{"pattern":"^a+$"}`, `"b"`, []string{"must match the pattern ^a+$"}},
		{`{"minItems":1}`, `[]`, []string{"must have at least 1 items, has 0"}},
		{`{"maxItems":1}`, `[1,2]`, []string{"must have at most 1 items, has 2"}},
		{`{"uniqueItems":true}`, `[1,2,1.0]`, []string{"items must be unique, items 0 and 2 are equal"}},
		{`{"contains":{"type":"string"}}`, `[1]`, []string{`has no item that matches the schema under "contains"`}},
		{`{"contains":{"type":"string"},"minContains":2}`, `["a"]`, []string{`must have at least 2 items that match the schema under "contains", has 1`}},
		{`{"contains":{"type":"string"},"maxContains":1}`, `["a","b"]`, []string{`must have at most 1 items that match the schema under "contains", has 2`}},
		{`{"prefixItems":[{}],"items":false}`, `[1,2]`, []string{"/1: is not allowed here"}},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","items":[{}],"additionalItems":false}`, `[1,2]`, []string{"has 1 items too many"}},
		{`{"minProperties":1}`, `{}`, []string{"must have at least 1 properties, has 0"}},
		{`{"maxProperties":1}`, `{"a":1,"b":2}`, []string{"must have at most 1 properties, has 2"}},
		{`{"dependentRequired":{"a":["b","c"]}}`, `{"a":1}`, []string{`missing property "b", "c", required because "a" is present`}},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","dependencies":{"a":["b"]}}`, `{"a":1}`, []string{`missing property "b", required because "a" is present`}},
		{`{"propertyNames":{"pattern":"^[a-z]+$","maxLength":2}}`, `{"A-1":1}`, []string{
			`property name "A-1" is not allowed: must have at most 2 characters, has 3; must match the pattern ^[a-z]+$`}},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","format":"ipv4"}`, `"x"`, []string{"must be a valid ipv4"}},
		{`{"unevaluatedProperties":false,"properties":{"a":{}}}`, `{"a":1,"b":2}`, []string{"/b: is not allowed here"}},
		{`{"allOf":[{"required":["a"]},{"$ref":"#/$defs/d"}],"$defs":{"d":{"required":["b"]}}}`, `{}`,
			[]string{`missing required property "a"`, `missing required property "b"`}},
		{`{"properties":{"p":{"anyOf":[{"type":"string"},{"properties":{"x":{"type":"integer"}},"required":["y"]}]}}}`, `{"p":{"x":"1"}}`,
			[]string{`/p: matches none of the alternatives: must be a string, got object; missing required property "y"; /x must be an integer, got string`}},
		{`{"oneOf":[{"type":"string"},{"type":"integer"}]}`, `null`, []string{"matches none of the alternatives: must be a string, got null; must be an integer, got null"}},
		{`{"anyOf":[{"required":["a"]},{"required":["a"],"maxProperties":5}]}`, `{}`, []string{`matches none of the alternatives: missing required property "a"`}},
		{`{"oneOf":[{"type":"string"},{"type":"number"},{"type":"integer"}]}`, `1`, []string{"must match exactly one alternative, matches numbers 2 and 3"}},
		{`{"if":{"required":["a"]},"then":{"required":["b"]}}`, `{"a":1}`, []string{`missing required property "b"`}},
		{`{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}`, `1`, []string{"cannot be validated: the schema refers to itself without end"}},

		{`true`, ``, []string{"is not valid JSON: unexpected end of JSON"}},
		{`true`, `{"a":[1,x]}`, []string{"/a/1: is not valid JSON: invalid character 'x' at start of value"}},
		{`true`, `{"a":1,"a":2}`, []string{"/a: is not valid JSON: duplicate object member name"}},
		{`true`, `1 2`, []string{"is not valid JSON: unexpected data after the value"}},
		{`true`, `{"a":[1e1000000]}`, []string{"/a/0: number has too many digits or too large an exponent"}},
		{`{"minimum":0}`, `-1e99999999999999999999`, []string{"number has too many digits or too large an exponent"}},
		{`true`, `1e-513`, []string{"number has too many digits or too large an exponent"}},
		{`true`, strings.Repeat("1", 513), []string{"number has too many digits or too large an exponent"}},
		{`true`, `[1e-512,` + strings.Repeat("1", 512) + `]`, nil},
	}
	for _, test := range tests {
		t.Run(clip(test.schema+" "+test.value), func(t *testing.T) {
			s, err := schema.Parse(jsontext.Value(test.schema))
			require.NoError(t, err)
			for range 5 { // the validator walks Go maps
				var got []string
				for _, f := range s.Faults(jsontext.Value(test.value)) {
					got = append(got, f.String())
				}
				require.Equal(t, test.want, got)
			}
		})
	}
}

func clip(s string) string { return s[:min(len(s), 60)] }

func TestFaultsAreBounded(t *testing.T) {
	s, err := schema.Parse(jsontext.Value(`{"additionalProperties":{"type":"string"},"properties":{"secret":{"enum":["a"]}}}`))
	require.NoError(t, err)
	long := strings.Repeat("é", 5000)

	faults := s.Faults(jsontext.Value(`{"` + long + `":1}`))
	require.Len(t, faults, 1)
	assert.LessOrEqual(t, len(faults[0].Path), 256)
	assert.True(t, strings.HasSuffix(faults[0].Path, "é…"), faults[0].Path)
	faults = s.Faults(jsontext.Value(`{"x` + long + `":1}`)) // the cut falls into a rune
	assert.True(t, strings.HasSuffix(faults[0].Path, "é…"), faults[0].Path)

	faults = s.Faults(jsontext.Value(`{"secret":"hunter2"}`))
	require.Len(t, faults, 1)
	assert.NotContains(t, faults[0].String(), "hunter2", "values must not be echoed")

	var many strings.Builder
	for i := range 100 {
		fmt.Fprintf(&many, `,"p%03d":%d`, i, i)
	}
	faults = s.Faults(jsontext.Value("{" + many.String()[1:] + "}"))
	require.Len(t, faults, 33)
	assert.Equal(t, schema.Fault{Path: "/p000", Message: "must be a string, got number"}, faults[0])
	assert.Equal(t, "/p031", faults[31].Path)
	assert.Equal(t, schema.Fault{Message: "... and more"}, faults[32])

	s, err = schema.Parse(jsontext.Value(`{"additionalProperties":false,"anyOf":[{"required":["` + long + `"]},true]}`))
	require.NoError(t, err)
	faults = s.Faults(jsontext.Value(`{"` + long + `":1}`))
	require.Len(t, faults, 1)
	assert.Equal(t, `unknown property "`+strings.Repeat("é", 39)+`…"`, faults[0].Message)
	s, err = schema.Parse(jsontext.Value(`{"required":["` + long + `"]}`))
	require.NoError(t, err)
	assert.Len(t, []rune(s.Faults(jsontext.Value(`{}`))[0].Message), 200)
}

// The validator overwrites the location of a propertyNames fault when it goes on
// (v6.0.3). In no order may a fault point to the wrong place.
func TestPropertyNamesFaultsPointToTheObject(t *testing.T) {
	s, err := schema.Parse(jsontext.Value(`{"additionalProperties":{"additionalProperties":{"type":"integer"},"propertyNames":{"maxLength":1}}}`))
	require.NoError(t, err)
	for range 200 {
		for _, f := range s.Faults(jsontext.Value(`{"a":{"long":1},"b":{"x":1},"c":{"y":1},"d":{"z":1}}`)) {
			require.Contains(t, []string{"", "/a"}, f.Path)
			require.Contains(t, f.Message, `"long"`)
		}
	}
}

func TestDecodeFaults(t *testing.T) {
	type in struct {
		N    int64          `json:"n,omitempty"`
		I    int32          `json:"i,omitempty"`
		F    float32        `json:"f,omitempty"`
		D    float64        `json:"d,omitempty"`
		Key  [4]byte        `json:"key,omitempty"`
		Addr netip.Addr     `json:"addr,omitzero"`
		At   time.Time      `json:"at,omitzero"`
		List []int          `json:"list,omitempty"`
		Map  map[string]int `json:"map,omitempty"`
		Any  any            `json:"any,omitempty"`
	}
	s, err := schema.For(reflect.TypeFor[in]())
	require.NoError(t, err)
	tests := []struct {
		value string
		want  string
	}{
		{`{"n":9223372036854775808}`, "/n: number is out of the range of int64"},
		{`{"list":[1,9e20]}`, "/list/1: number is out of the range of int"},
		{`{"i":2147483648}`, "/i: must be at most 2147483647"},
		{`{"f":1e39}`, "/f: number is out of the range of float32"},
		{`{"d":1e400}`, "/d: number is out of the range of float64"},
		{`{"any":[1e400]}`, "/any/0: number is out of the range of float64"},
		{`{"key":"AA=="}`, "/key: is not accepted: decoded length of 1 mismatches array length of 4"},
		{`{"key":"?"}`, "/key: is not accepted: illegal base64 data at input byte 0"},
		{`{"addr":"localhost"}`, `/addr: is not accepted: ParseAddr("localhost"): unable to parse IP`},
		{`{"at":"2026-02-30T00:00:00Z"}`, "/at: must be a valid date-time"},
		{`{"at":"2026-02-03t00:00:00z"}`, "/at: must be a valid date-time"},
		{`{"N":1}`, `unknown property "N"`},
		{`{"any":null,"list":null}`, "/list: must be an array, got null"},
		{`{"n":`, "/n: is not valid JSON: unexpected end of JSON"},
	}
	for _, test := range tests {
		into := in{}
		faults := s.Fill(jsontext.Value(test.value), &into)
		require.Len(t, faults, 1, test.value)
		assert.Equal(t, test.want, faults[0].String(), test.value)
		// What a type's own method says may repeat the value.
		discreet := regexp.MustCompile(`is not accepted: .*`).ReplaceAllString(test.want, "is not accepted by its Go type")
		discreet = strings.Replace(discreet, `unknown property "N"`, "unknown property", 1)
		assert.Equal(t, discreet, s.Discreet(faults[0]), test.value)
		assert.Zero(t, into, "%s: nothing may be left of a refused value", test.value)
	}

	long := `{"addr":"` + strings.Repeat("z", 5000) + `"}`
	faults := s.Fill(jsontext.Value(long), new(in))
	require.Len(t, faults, 1)
	assert.LessOrEqual(t, len([]rune(faults[0].Message)), 200)
}

func TestDecodeTakesIntegersWithFractions(t *testing.T) {
	type in struct {
		N int               `json:"n"`
		M map[string][]int  `json:"m,omitempty"`
		F float64           `json:"f,omitempty"`
		A any               `json:"a,omitempty"`
		R jsontext.Value    `json:"r,omitempty"`
		X struct{ U uint8 } `json:"x"`
	}
	s, err := schema.For(reflect.TypeFor[in]())
	require.NoError(t, err)
	var got in
	require.Empty(t, s.Fill(jsontext.Value(` {"n":2.0,"m":{"a":[1e2,-0.0,12.50e1]},"f":2.0,"a":2.0,"r":2.50e1,"x":{"U":2.55e2}}`), &got))
	assert.Equal(t, in{N: 2, M: map[string][]int{"a": {100, 0, 125}}, F: 2, A: 2.0, R: jsontext.Value("2.50e1"), X: struct{ U uint8 }{255}}, got)
	assert.Equal(t, []schema.Fault{{Path: "/x/U", Message: "must be at most 255"}},
		s.Fill(jsontext.Value(`{"n":1,"x":{"U":2.56e2}}`), &got))
	assert.Equal(t, []schema.Fault{{Path: "/n", Message: "must be an integer, got number"}},
		s.Fill(jsontext.Value(`{"n":1.5,"x":{"U":0}}`), &got))
}

func TestDecodeIntoOtherTypes(t *testing.T) {
	s, err := schema.Parse(jsontext.Value(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`))
	require.NoError(t, err)
	var raw jsontext.Value
	require.Empty(t, s.Fill(jsontext.Value(`{"n":2.0,"x":1}`), &raw))
	assert.Equal(t, `{"n":2.0,"x":1}`, string(raw))

	var typed struct {
		N int `json:"n"`
	}
	require.Empty(t, s.Fill(jsontext.Value(`{"n":2,"x":1}`), &typed))
	assert.Equal(t, 2, typed.N)
	assert.Equal(t, []schema.Fault{{Path: "/n", Message: "must be an integer without fraction and exponent"}},
		s.Fill(jsontext.Value(`{"n":2.0}`), &typed))
	assert.Equal(t, []schema.Fault{{Message: `missing required property "n"`}}, s.Fill(jsontext.Value(`{}`), &typed))

	var wrong struct {
		N string `json:"n"`
	}
	faults := s.Fill(jsontext.Value(`{"n":1}`), &wrong)
	require.Len(t, faults, 1)
	assert.Equal(t, "/n: is not accepted: string cannot be decoded from it", faults[0].String())
	assert.NotEmpty(t, s.Fill(jsontext.Value(`{"n":1}`), nil), "a variable that cannot be filled must be a fault, not a panic")
	assert.NotEmpty(t, s.Fill(jsontext.Value(`{"n":1}`), wrong))
	assert.NotEmpty(t, s.Fill(jsontext.Value(`{"n":1}`), (*int)(nil)))

	inferred, err := schema.For(reflect.TypeFor[map[string]uint64]())
	require.NoError(t, err)
	var exact map[string]uint64
	require.Empty(t, inferred.Fill(jsontext.Value(`{"a":18446744073709551615}`), &exact))
	assert.Equal(t, uint64(math.MaxUint64), exact["a"])
	var other map[string]any
	assert.Equal(t, []schema.Fault{{Path: "/a", Message: "must be an integer, got string"}},
		inferred.Fill(jsontext.Value(`{"a":"x"}`), &other), "a variable of another type must still get a validated value")
}
