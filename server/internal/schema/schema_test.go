package schema_test

import (
	"encoding/json"
	"log/slog"
	"math/big"
	"net/netip"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/server/internal/schema"
)

type (
	embedded struct {
		ID string `json:"id"`
	}
	named   string
	octet   byte
	onlyOut struct{}
	onlyIn  struct{ V int }
	opaque  struct{ V int }

	recursive struct {
		Name     string       `json:"name"`
		Children []*recursive `json:"children"`
	}
	loop      *loop
	SelfEmbed struct {
		*SelfEmbed
		A int
	}
	stringer interface{ String() string }
)

func (onlyOut) MarshalText() ([]byte, error) { return []byte("out"), nil }
func (*onlyIn) UnmarshalText([]byte) error   { return nil }
func (*opaque) UnmarshalJSON([]byte) error   { return nil }

func TestForInfers(t *testing.T) {
	tests := []struct {
		name   string
		typ    reflect.Type
		want   string
		proven bool
	}{
		{"empty struct", reflect.TypeFor[struct{}](), `{"type":"object","additionalProperties":false}`, true},
		{"order, description, optional", reflect.TypeFor[struct {
			Z string `json:"z" jsonschema:"last letter first"`
			A int    `json:"a,omitempty"`
			M *bool  `json:"m"`
			O *bool  `json:"o,omitzero"`
			X string `json:"-"`
			N float32
			u int //nolint:unused // must not show
		}](), `{"type":"object","properties":{"z":{"type":"string","description":"last letter first"},"a":{"type":"integer"},"m":{"type":["null","boolean"]},"o":{"type":["null","boolean"]},"N":{"type":"number"}},"required":["z","m","N"],"additionalProperties":false}`, true},
		{"integers", reflect.TypeFor[[]struct {
			A int8
			B uint16
			C int64
			D uint64
		}](), `{"type":"array","items":{"type":"object","properties":{"A":{"type":"integer","minimum":-128,"maximum":127},"B":{"type":"integer","minimum":0,"maximum":65535},"C":{"type":"integer"},"D":{"type":"integer","minimum":0}},"required":["A","B","C","D"],"additionalProperties":false}}`, true},
		{"slices are not null, pointers are", reflect.TypeFor[map[string]*[][2]named](), `{"type":"object","additionalProperties":{"type":["null","array"],"items":{"type":"array","items":{"type":"string"},"minItems":2,"maxItems":2}}}`, true},
		{"bytes are base64", reflect.TypeFor[struct {
			B []byte
			K [16]byte
			N []octet
		}](), `{"type":"object","properties":{"B":{"type":"string","contentEncoding":"base64"},"K":{"type":"string","contentEncoding":"base64"},"N":{"type":"array","items":{"type":"integer","minimum":0,"maximum":255}}},"required":["B","K","N"],"additionalProperties":false}`, true},
		{"time", reflect.TypeFor[struct {
			T time.Time  `json:"t" jsonschema:"when"`
			P *time.Time `json:"p"`
		}](), `{"type":"object","properties":{"t":{"type":"string","description":"when","format":"date-time"},"p":{"type":["null","string"],"format":"date-time"}},"required":["t","p"],"additionalProperties":false}`, true},
		{"anything", reflect.TypeFor[struct {
			A any
			R json.RawMessage
			P *json.RawMessage `jsonschema:"free"`
			V jsontext.Value
			B big.Int
			L slog.Level
			O opaque
		}](), `{"type":"object","properties":{"A":true,"R":true,"P":{"description":"free"},"V":true,"B":true,"L":true,"O":true},"required":["A","R","P","V","B","L","O"],"additionalProperties":false}`, true},
		{"text methods", reflect.TypeFor[struct {
			A netip.Addr
			P *netip.Addr
			O onlyOut
		}](), `{"type":"object","properties":{"A":{"type":"string"},"P":{"type":["null","string"]},"O":{"type":"string"}},"required":["A","P","O"],"additionalProperties":false}`, true},
		{"decodes from text but encodes as a struct", reflect.TypeFor[[]onlyIn](), `{"type":"array","items":{"type":"string"}}`, false},
		{"embedded struct", reflect.TypeFor[struct {
			embedded
			B int `json:"b"`
		}](), `{"type":"object","properties":{"id":{"type":"string"},"b":{"type":"integer"}},"required":["id","b"],"additionalProperties":false}`, true},
		{"embedded pointer may drop a required member", reflect.TypeFor[struct {
			*Embedded
			B int `json:"b"`
		}](), `{"type":"object","properties":{"id":{"type":"string"},"b":{"type":"integer"}},"required":["id","b"],"additionalProperties":false}`, false},
		{"embedded pointer without required members", reflect.TypeFor[struct{ *Optional }](), `{"type":"object","properties":{"id":{"type":"string"}},"additionalProperties":false}`, true},
		{"scalar root", reflect.TypeFor[float64](), `{"type":"number"}`, true},
		{"any root", reflect.TypeFor[any](), `true`, true},
		{"pointer root", reflect.TypeFor[*struct{}](), `{"type":["null","object"],"additionalProperties":false}`, true},
		{"raw root", reflect.TypeFor[jsontext.Value](), `true`, true},
		{"map root", reflect.TypeFor[map[string]any](), `{"type":"object","additionalProperties":true}`, true},
		{"map with text keys", reflect.TypeFor[map[netip.Addr]bool](), `{"type":"object","additionalProperties":{"type":"boolean"}}`, true},
		{"one type twice is no recursion", reflect.TypeFor[struct{ A, B embedded }](), `{"type":"object","properties":{"A":{"type":"object","properties":{"id":{"type":"string"}},"required":["id"],"additionalProperties":false},"B":{"type":"object","properties":{"id":{"type":"string"}},"required":["id"],"additionalProperties":false}},"required":["A","B"],"additionalProperties":false}`, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s, err := schema.For(test.typ)
			require.NoError(t, err)
			assert.Equal(t, test.want, string(s.JSON()))
			assert.Equal(t, test.proven, s.ProvenByType())
			for range 5 {
				again, err := schema.For(test.typ)
				require.NoError(t, err)
				require.Equal(t, string(s.JSON()), string(again.JSON()), "output must be deterministic")
			}
		})
	}
}

// These are exported because json/v2 cannot set an embedded pointer to what is not.
type (
	Embedded embedded
	Optional struct {
		ID string `json:"id,omitempty"`
	}
)

func TestForReturnsErrors(t *testing.T) {
	type shadow struct {
		ID int `json:"other"`
		embedded
	}
	type inner struct {
		List []struct {
			Wait time.Duration `json:"wait"`
		} `json:"list"`
	}
	twins := reflect.StructOf([]reflect.StructField{ // vet and staticcheck would find these in a literal
		{Name: "A", Type: reflect.TypeFor[int](), Tag: `json:"x"`},
		{Name: "B", Type: reflect.TypeFor[int](), Tag: `json:"x"`},
	})
	typo := reflect.StructOf([]reflect.StructField{{Name: "N", Type: reflect.TypeFor[int](), Tag: `json:"n,omitEmty"`}})
	tests := []struct {
		name string
		typ  reflect.Type
		want []string
	}{
		{"nil", nil, []string{"nil type"}},
		{"recursive", reflect.TypeFor[recursive](), []string{"field children[]", "recursive"}},
		{"recursive pointer", reflect.TypeFor[loop](), []string{"pointer to a pointer"}},
		{"recursive embedding", reflect.TypeFor[SelfEmbed](), []string{"field SelfEmbed", "recursive"}},
		{"embedded pointer to unexported", reflect.TypeFor[struct{ *embedded }](), []string{"field embedded", "unexported"}},
		{"duration, deep", reflect.TypeFor[inner](), []string{"field list[].wait", "time.Duration", "timeout_ms"}},
		{"duration in a map", reflect.TypeFor[map[string]time.Duration](), []string{"field {}", "time.Duration"}},
		{"channel", reflect.TypeFor[struct{ C chan int }](), []string{"field C", "chan int"}},
		{"func", reflect.TypeFor[func()](), []string{"func()"}},
		{"complex", reflect.TypeFor[map[string]complex64](), []string{"complex64"}},
		{"interface with methods", reflect.TypeFor[struct{ S stringer }](), []string{"field S", "interface"}},
		{"map key", reflect.TypeFor[struct{ M map[int]string }](), []string{"field M", "map key type int"}},
		{"string option", reflect.TypeFor[struct {
			N int `json:"n,string"`
		}](), []string{"field N", `"string"`}},
		{"unknown option", typo, []string{"field N", "omitEmty"}},
		{"embed option", reflect.TypeFor[struct {
			M map[string]any `json:",embed"`
		}](), []string{"field M", "embed"}},
		{"quoted name", reflect.TypeFor[struct {
			N int `json:"'a,b'"`
		}](), []string{"N", "malformed"}},
		{"embedded with a name", reflect.TypeFor[struct {
			Embedded `json:"base"`
		}](), []string{"field Embedded", "JSON name"}},
		{"embedded, hidden by Go's rules", reflect.TypeFor[shadow](), []string{"shadow", "read differently"}},
		{"embedded non-struct", reflect.TypeFor[struct{ named }](), []string{"named"}},
		{"two fields, one name", twins, []string{`"x"`, "conflict"}},
		{"two fields, one name, by embedding", reflect.TypeFor[struct {
			embedded
			Other string `json:"id"`
		}](), []string{"field id", "two fields"}},
		{"no exported fields", reflect.TypeFor[struct {
			A struct{ b int } `json:"a"`
		}](), []string{"field a", "no exported fields"}},
		{"bad description", reflect.TypeFor[struct {
			A int `json:"a" jsonschema:"required=true"`
		}](), []string{"the tag is the description alone"}},
		{"empty header tag", reflect.TypeFor[struct {
			A int `json:"a" mcpheader:""`
		}](), []string{"field a", "mcpheader"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s, err := schema.For(test.typ)
			require.Error(t, err)
			assert.Nil(t, s)
			for _, want := range test.want {
				assert.Contains(t, err.Error(), want)
			}
		})
	}
}

// TestProvenByType encodes values that the schema could reject, above all zero values, and
// compares the result with the validator.
func TestProvenByType(t *testing.T) {
	type out struct {
		Nil     []int          `json:"nil"`
		Map     map[string]int `json:"map"`
		Pointer *int           `json:"pointer"`
		Deep    **[]string     `json:"deep"`
		Any     any            `json:"any"`
		Raw     jsontext.Value `json:"raw"`
		Bytes   []byte         `json:"bytes"`
		Key     [2]byte        `json:"key"`
		Time    time.Time      `json:"time"`
		Addr    netip.Addr     `json:"addr"`
		Array   [2]*embedded   `json:"array"`
		Small   int8           `json:"small"`
		Big     uint64         `json:"big"`
		Float   float32        `json:"float"`
		Maybe   string         `json:"maybe,omitempty"`
		Never   *embedded      `json:"never,omitzero"`
	}
	values := []any{
		out{}, out{Small: -128, Big: 1<<64 - 1, Float: 3.4e38, Any: []any{1, nil}, Raw: jsontext.Value(`{"a":null}`), Maybe: "x"},
		out{Time: time.Date(9999, 12, 31, 23, 59, 59, 999, time.FixedZone("", -3600*23)), Addr: netip.MustParseAddr("::1%eth0")},
		[]*out{nil, {}}, map[string][]out{"": nil}, (*out)(nil), ([]int)(nil), "", 0, onlyOut{},
	}
	for _, value := range values {
		s, err := schema.For(reflect.TypeOf(value))
		require.NoError(t, err)
		assert.True(t, s.ProvenByType(), "%T", value)
		raw, err := jsonv2.Marshal(value)
		require.NoError(t, err)
		assert.Empty(t, s.Faults(raw), "%s", raw)
	}

	unproven := []any{struct{ *Embedded }{}, []onlyIn{{}}, map[string]struct{ V *onlyIn }{"a": {&onlyIn{}}}}
	for _, value := range unproven {
		s, err := schema.For(reflect.TypeOf(value))
		require.NoError(t, err)
		assert.False(t, s.ProvenByType(), "%T", value)
		raw, err := jsonv2.Marshal(value)
		require.NoError(t, err)
		assert.NotEmpty(t, s.Faults(raw), "%T is called unproven, but %s is valid", value, raw)
	}

	given, err := schema.Parse(jsontext.Value(`true`))
	require.NoError(t, err)
	assert.False(t, given.ProvenByType())
}

func TestParseKeepsTheSchema(t *testing.T) {
	raw := jsontext.Value(`{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "https://example.com/tool", "type": "object",
		"x-vendor": {"b": 1.50, "a": "\u00e9"}, "unevaluatedProperties": false,
		"properties": {"z": {"$ref": "#/$defs/name"}, "a": {"$ref": "#pos"}, "self": {"$ref": "https://example.com/tool#/$defs/name"}},
		"$defs": {"name": {"type": "string"}, "pos": {"$anchor": "pos", "type": "integer", "minimum": 1}},
		"if": {"required": ["a"]}, "then": {"required": ["z"]}, "allOf": [true], "anyOf": [{}]
	}`)
	before := raw.Clone()
	s, err := schema.Parse(raw)
	require.NoError(t, err)
	assert.Equal(t, string(before), string(raw), "the argument is the caller's")
	compact := raw.Clone()
	require.NoError(t, compact.Compact())
	assert.Equal(t, string(compact), string(s.JSON()))
	assert.Contains(t, string(s.JSON()), `"b":1.50,"a":"\u00e9"`, "numbers and escapes stay as they are")
	raw[0] = 'x'
	assert.Equal(t, byte('{'), s.JSON()[0], "the schema must not share the caller's bytes")

	assert.Empty(t, s.Faults(jsontext.Value(`{"z":"n","a":1,"self":"x"}`)))
	assert.Equal(t, []schema.Fault{
		{Path: "", Message: `missing required property "z"`},
		{Path: "/a", Message: "must be at least 1"},
		{Path: "/self", Message: "must be a string, got number"},
	}, s.Faults(jsontext.Value(`{"a":0,"self":5}`)))
}

func TestParseReturnsErrors(t *testing.T) {
	deep := func(n int) string { return strings.Repeat(`{"not":`, n) + `true` + strings.Repeat(`}`, n) }
	tests := []struct{ name, raw, want string }{
		{"nothing", ``, "unexpected end"},
		{"no JSON", `{"type":object}`, "at \"/type\""},
		{"two values", `{} {}`, "after"},
		{"duplicate keyword", `{"type":"object","type":"string"}`, "duplicate"},
		{"no schema", `[]`, "must be a boolean or an object, got array"},
		{"bad type", `{"properties":{"a":{"type":"strin"}}}`, "/properties/a/type"},
		{"bad keyword value", `{"minLength":-1}`, "/minLength: must be at least 0"},
		{"look-ahead", `{"pattern":"(?=a)"}`, "/pattern: must be a valid regular expression (RE2 syntax)"},
		{"file", `{"$ref":"file:///etc/hostname"}`, "outside the document"},
		{"relative file", `{"$ref":"schema.json"}`, "outside the document"},
		{"absolute path", `{"$ref":"/etc/hostname"}`, "outside the document"},
		{"network", `{"properties":{"a":{"$ref":"https://example.com/s"}}}`, "outside the document"},
		{"network by id", `{"$id":"https://example.com/s","$ref":"other"}`, "outside the document"},
		{"network dialect below", `{"$defs":{"a":{"$id":"x","$schema":"https://example.com/s"}}}`, "outside the document"},
		{"missing definition", `{"$ref":"#/$defs/a"}`, "not found"},
		{"missing anchor", `{"$ref":"#a"}`, "#a"},
		{"dialect", `{"$schema":"https://json-schema.org/draft/2099-01/schema"}`, "dialect is not supported"},
		{"dialect, another kind", `{"$schema":"http://json-schema.org/draft-03/schema#"}`, "draft-04"},
		{"dialect, no string", `{"$schema":5}`, "/$schema"},
		{"number", `{"minimum":1e999999999}`, "/minimum"},
		{"too deep", deep(65), "more than 64 levels"},
		{"too long", `{"description":"` + strings.Repeat("x", 256<<10) + `"}`, "limit is 262144"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s, err := schema.Parse(jsontext.Value(test.raw))
			require.Error(t, err)
			assert.Nil(t, s)
			assert.Contains(t, err.Error(), test.want)
		})
	}
	_, err := schema.Parse(jsontext.Value(deep(63)))
	assert.NoError(t, err)
}

func TestParseDialects(t *testing.T) {
	// In draft-04 exclusiveMinimum is a boolean, since draft-06 a number.
	draft4 := `{"$schema":"http://json-schema.org/draft-04/schema#","type":"number","minimum":1,"exclusiveMinimum":true}`
	s, err := schema.Parse(jsontext.Value(draft4))
	require.NoError(t, err)
	assert.NotEmpty(t, s.Faults(jsontext.Value(`1`)))
	for _, dialect := range []string{
		"http://json-schema.org/draft-06/schema#", "https://json-schema.org/draft-07/schema", "http://json-schema.org/draft-07/schema#",
		"https://json-schema.org/draft/2019-09/schema", "https://json-schema.org/draft/2020-12/schema#",
	} {
		s, err := schema.Parse(jsontext.Value(`{"$schema":"` + dialect + `","type":"number","exclusiveMinimum":1}`))
		require.NoError(t, err, dialect)
		assert.NotEmpty(t, s.Faults(jsontext.Value(`1`)), dialect)
		assert.Empty(t, s.Faults(jsontext.Value(`1.5`)), dialect)
	}

	formats := map[string]bool{ // does a format reject?
		`{"format":"email"}`: false,
		`{"$schema":"https://json-schema.org/draft/2019-09/schema","format":"email"}`: false,
		`{"$schema":"http://json-schema.org/draft-07/schema#","format":"email"}`:      true,
	}
	for raw, rejects := range formats {
		s, err := schema.Parse(jsontext.Value(raw))
		require.NoError(t, err)
		assert.Equal(t, rejects, s.Faults(jsontext.Value(`"nobody"`)) != nil, raw)
	}
}

func TestRequireObject(t *testing.T) {
	for raw, ok := range map[string]bool{
		`{"type":"object"}`: true, `{"type":"object","oneOf":[{},false]}`: true,
		`true`: false, `{}`: false, `{"type":"array"}`: false, `{"type":["object"]}`: false, `{"properties":{}}`: false,
	} {
		s, err := schema.Parse(jsontext.Value(raw))
		require.NoError(t, err)
		assert.Equal(t, ok, s.RequireObject() == nil, raw)
	}
	for typ, ok := range map[reflect.Type]bool{
		reflect.TypeFor[struct{}](): true, reflect.TypeFor[map[string]any](): true,
		reflect.TypeFor[*struct{}](): false, reflect.TypeFor[any](): false, reflect.TypeFor[[]int](): false,
	} {
		s, err := schema.For(typ)
		require.NoError(t, err)
		assert.Equal(t, ok, s.RequireObject() == nil, typ)
	}
}

func TestSchemaIsSafeForConcurrentUse(t *testing.T) {
	type in struct {
		A []string       `json:"a"`
		B map[string]any `json:"b"`
	}
	s, err := schema.For(reflect.TypeFor[in]())
	require.NoError(t, err)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				var out in
				assert.Empty(t, s.Fill(jsontext.Value(`{"a":["x"],"b":{}}`), &out))
				assert.Len(t, s.Fill(jsontext.Value(`{"a":[1],"b":[],"c":1}`), &out), 3)
			}
		})
	}
	wg.Wait()
}

// FuzzParse looks for schemas that make the compiler or the validator panic.
func FuzzParse(f *testing.F) {
	for _, raw := range []string{
		`{"$ref":"#"}`, `{"$dynamicRef":"#a","$dynamicAnchor":"a"}`, `{"$id":"a#b","$defs":{"x":{"$id":"a"}}}`,
		`{"$schema":"https://json-schema.org/draft/2019-09/schema","$recursiveRef":"#","$recursiveAnchor":true}`,
		`{"$schema":"http://json-schema.org/draft-04/schema","id":"#x","dependencies":{"a":["b"],"c":{}}}`,
		`{"properties":{"a":{"x-mcp-header":"A","type":"string"}},"propertyNames":{"pattern":"^a"}}`,
		`{"items":{"multipleOf":0.01,"minimum":1e-300},"contains":{"const":1},"minContains":2,"uniqueItems":true}`,
		`{"oneOf":[{"enum":[1,"a",null]},{"not":{"minLength":2}}],"unevaluatedItems":false,"if":{},"then":false}`,
	} {
		f.Add([]byte(raw), []byte(`{"a":[1,1.0,"x",null,{"b":2}],"c":"d"}`))
	}
	f.Fuzz(func(t *testing.T, raw, value []byte) {
		s, err := schema.Parse(raw)
		if err != nil {
			return
		}
		faults := s.Faults(value)
		var into any
		if decoded := s.Fill(value, &into); faults != nil {
			assert.Equal(t, faults, decoded)
		}
		_, err = schema.Parse(s.JSON())
		assert.NoError(t, err, "what tools/list shows must parse")
	})
}
