package schema

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type (
	forecastIn struct {
		City    string   `json:"city" jsonschema:"name of the city"`
		Country string   `json:"country,omitempty"`
		Days    int      `json:"days"`
		Metric  bool     `json:"metric"`
		Tags    []string `json:"tags"`
	}
	numbers struct {
		I8  int8    `json:"i8,omitzero"`
		U8  *uint8  `json:"u8,omitzero"`
		I32 int32   `json:"i32,omitzero"`
		I64 int64   `json:"i64,omitzero"`
		U64 uint64  `json:"u64,omitzero"`
		F32 float32 `json:"f32,omitzero"`
		F64 float64 `json:"f64,omitzero"`
	}
	common struct {
		ID   string `json:"id"`
		Note string `json:"note,omitempty"`
	}
	nested struct {
		common
		Point   *struct{ X, Y float64 } `json:"point"`
		Grid    [2][]int                `json:"grid,omitempty"`
		ByName  map[string]*common      `json:"by_name,omitempty"`
		Deep    []map[string][]*bool    `json:"deep,omitempty"`
		Escaped string                  `json:"a\u00e9/~ b,omitempty"`
	}
	loose struct {
		Any   any             `json:"any"`
		Raw   json.RawMessage `json:"raw"`
		Value *jsontext.Value `json:"value,omitempty"`
	}
	texts struct {
		At    time.Time                 `json:"at,omitzero"`
		Until *time.Time                `json:"until,omitzero"`
		Data  []byte                    `json:"data,omitempty"`
		Key   [4]byte                   `json:"key,omitempty"`
		Addr  netip.Addr                `json:"addr,omitzero"`
		ByKey map[netip.Addr]netip.Addr `json:"by_key,omitempty"`
	}
)

// agreeTypes are the types the fast path is compared with the validator for.
var agreeTypes = []reflect.Type{
	reflect.TypeFor[forecastIn](), reflect.TypeFor[numbers](), reflect.TypeFor[nested](),
	reflect.TypeFor[loose](), reflect.TypeFor[texts](), reflect.TypeFor[struct{}](),
	reflect.TypeFor[map[string]any](), reflect.TypeFor[map[string][]int](),
	reflect.TypeFor[[]*numbers](), reflect.TypeFor[*forecastIn](), reflect.TypeFor[any](),
}

func agreeSchemas(t testing.TB) []*Schema {
	schemas := make([]*Schema, len(agreeTypes))
	for i, typ := range agreeTypes {
		s, err := For(typ)
		require.NoError(t, err)
		require.True(t, s.exact, "%v must take the fast path", typ)
		schemas[i] = s
	}
	return schemas
}

// checkAgreement holds the fast path against the validator. What is accepted
// must be the same, but for a value that the Go type cannot hold.
func checkAgreement(t *testing.T, s *Schema, typ reflect.Type, raw []byte) (accepted bool) {
	into := reflect.New(typ)
	faults := s.Fill(raw, into.Interface())
	if faults != nil {
		require.True(t, into.Elem().IsZero(), "faults must leave the zero value: %s", raw)
		checkBounds(t, faults)
	}
	fast := reflect.New(typ)
	admitted, refused := s.typedPass(raw, fast.Interface())
	decoded := admitted && refused == nil
	if !jsontext.Value(raw).IsValid() {
		require.False(t, decoded, "fast path took bad JSON %q", raw)
		require.Len(t, faults, 1, "%q", raw)
		return false
	}
	valid := s.Faults(raw) == nil
	if decoded {
		require.True(t, valid, "the fast path takes %s, the validator has %v", raw, s.Faults(raw))
		require.Nil(t, faults)
		require.True(t, reflect.DeepEqual(fast.Interface(), into.Interface()), "%s", raw)
		return true
	}
	if !valid {
		require.NotNil(t, faults, "%s", raw)
		return false
	}
	require.Error(t, jsonv2.Unmarshal(raw, reflect.New(typ).Interface()), "the fast path refuses what is valid and decodes: %s", raw)
	whole, _ := s.shape.completed(raw, nil)
	holds := jsonv2.Unmarshal(whole, reflect.New(typ).Interface()) == nil
	require.Equal(t, holds, faults == nil, "%s: %v", raw, faults)
	return faults == nil
}

func checkBounds(t *testing.T, faults []Fault) {
	require.LessOrEqual(t, len(faults), maxFaults+1)
	for _, f := range faults {
		require.LessOrEqual(t, len([]rune(f.Message)), maxMessage)
		require.LessOrEqual(t, len(f.Path), maxPath)
		require.NotEmpty(t, f.Message)
	}
}

func FuzzDecodeAgrees(f *testing.F) {
	for i, raw := range []string{
		`{"city":"Oslo","days":3,"metric":true,"tags":["a",null]}`,
		`{"i8":1.0,"u8":2e0,"i32":2147483648,"i64":9223372036854775808,"f32":1e39,"f64":1e400}`,
		`{"id":"x","point":{"X":1,"Y":null},"grid":[[1],[2,3]],"by_name":{"a":null},"deep":[{"b":[true,null]}],"a\u00e9/~ b":"\""}`,
		`{"any":[1e999,{"x":null}],"raw":null,"value":null}`,
		`{"at":"2026-01-02T03:04:05Z","until":null,"data":"AAA=","key":"AAAAAA==","addr":"::1","by_key":{"::1":""}}`,
		`{}`, `{"a":1,"a":2}`, `{"a":[1,-0,0.0,1E+2]}`, `[{},null]`, `null`, `"\ud800"`, `{"c\u0069ty":1}`, ` [ ] `, `[1`, `{"a"`, `nul`,
	} {
		f.Add(uint8(i), []byte(raw))
	}
	schemas := agreeSchemas(f)
	f.Fuzz(func(t *testing.T, which uint8, raw []byte) {
		i := int(which) % len(schemas)
		checkAgreement(t, schemas[i], agreeTypes[i], raw)
	})
}

// TestDecodeAgreesNearTheTypes tests values that fit the type but for one or two mistakes. A
// fuzzer takes long to find them.
func TestDecodeAgreesNearTheTypes(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for i, s := range agreeSchemas(t) {
		accepted := 0
		const rounds = 2000
		for n := range rounds {
			g := generator{rnd: rnd, mistakes: n % 3}
			if checkAgreement(t, s, agreeTypes[i], []byte(g.value(s.shape))) {
				accepted++
			}
		}
		assert.Greater(t, accepted, rounds/8, "%v: the generator must make good values too", agreeTypes[i])
		if agreeTypes[i].Kind() == reflect.Struct && agreeTypes[i].NumField() > 0 {
			assert.Less(t, accepted, rounds*9/10, "%v: the generator must make bad values too", agreeTypes[i])
		}
	}
}

// A generator writes random JSON along a shape, with some mistakes.
type generator struct {
	rnd      *rand.Rand
	mistakes int
}

var wild = []string{`null`, `true`, `7`, `2.0`, `3e1`, `-1`, `0.5`, `300`, `1e39`, `1e400`, `1e9999`, `9223372036854775808`,
	`"text"`, `""`, `"::1"`, `"2026-02-30T00:00:00Z"`, `[]`, `{}`, `[null]`, `[1,"a"]`, `{"id":"i"}`, `{"X":1}`}

func (g *generator) value(s *shape) string {
	if g.mistakes > 0 && g.rnd.IntN(6) == 0 {
		g.mistakes--
		return wild[g.rnd.IntN(len(wild))]
	}
	if s.nullable && g.rnd.IntN(4) == 0 {
		return "null"
	}
	space := []string{"", "", " ", "\n\t"}[g.rnd.IntN(4)]
	var parts []string
	switch s.kind {
	case anything:
		return wild[g.rnd.IntN(len(wild))]
	case instant:
		return `"2026-01-02T03:04:05.678+01:00"`
	case text:
		if s.typ == reflect.TypeFor[[4]byte]() {
			return `"AAECAw=="`
		} else if s.typ.Kind() == reflect.Slice {
			return `"AAE="`
		}
		return `"192.0.2.1"`
	case integer:
		return fmt.Sprint(g.rnd.IntN(100))
	case scalar:
		switch s.typ.Kind() {
		case reflect.Bool:
			return `false`
		case reflect.String:
			return []string{`"x"`, `"\"\\"`, `"é\n"`, `"a,]}{["`}[g.rnd.IntN(4)]
		}
		return []string{`1.5`, `-2`, `1e3`}[g.rnd.IntN(3)]
	case list:
		n := g.rnd.IntN(3)
		if s.typ.Kind() == reflect.Array {
			n = s.typ.Len()
		}
		for range n {
			parts = append(parts, g.value(s.elem))
		}
		return "[" + space + strings.Join(parts, space+",") + "]"
	case dict:
		for i := range g.rnd.IntN(3) {
			parts = append(parts, fmt.Sprintf(`"192.0.2.%d":%s`, i, g.value(s.elem)))
		}
	case record:
		for _, f := range s.fields {
			if !f.required && g.rnd.IntN(2) == 0 || g.mistakes > 0 && g.rnd.IntN(8) == 0 {
				continue
			}
			name, _ := jsontext.AppendQuote(nil, f.name)
			if g.rnd.IntN(10) == 0 {
				name = fmt.Appendf(nil, `"\u%04x%s`, f.name[0], name[2:])
			}
			parts = append(parts, string(name)+space+":"+space+g.value(f.shape))
		}
		g.rnd.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
		if g.mistakes > 0 && g.rnd.IntN(10) == 0 {
			parts = append(parts, `"City":"x"`)
		}
	}
	return "{" + strings.Join(parts, ","+space) + space + "}"
}

// A schema that says more than its type must be validated. A later version of jsonschema-go may
// produce one.
func TestInexactSchemasAreValidated(t *testing.T) {
	s, err := For(reflect.TypeFor[forecastIn]())
	require.NoError(t, err)
	out, err := jsonschema.ForType(reflect.TypeFor[forecastIn](), nil)
	require.NoError(t, err)
	out.Properties["tags"].Types, out.Properties["tags"].Type = nil, "array"

	for name, tighten := range map[string]func(*jsonschema.Schema){
		"scalar":  func(out *jsonschema.Schema) { out.Properties["city"].Enum = []any{"Oslo"} },
		"integer": func(out *jsonschema.Schema) { out.Properties["days"].Maximum = jsonschema.Ptr(4.0) },
		"list":    func(out *jsonschema.Schema) { out.Properties["tags"].MaxItems = jsonschema.Ptr(1) },
		"record":  func(out *jsonschema.Schema) { out.MaxProperties = jsonschema.Ptr(4) },
	} {
		t.Run(name, func(t *testing.T) {
			tight := out.CloneSchemas()
			tighten(tight)
			in := newInference(decoded)
			require.NoError(t, in.reconcile(s.shape, tight, ""))
			assert.False(t, in.exact)
			raw, err := tight.MarshalJSON()
			require.NoError(t, err)
			inexact, err := compile(raw, fromType)
			require.NoError(t, err)
			inexact.target, inexact.shape = s.target, s.shape
			assert.Len(t, inexact.Fill(goodForecast, new(forecastIn)), 1)
		})
	}
	in := newInference(decoded)
	require.NoError(t, in.reconcile(s.shape, out, ""))
	assert.True(t, in.exact)
}

var goodForecast = jsontext.Value(`{"city":"Trondheim","country":"NO","days":5,"metric":true,"tags":["rain","wind"]}`)

func BenchmarkDecode(b *testing.B) {
	inferred, err := For(reflect.TypeFor[forecastIn]())
	require.NoError(b, err)
	parsed, err := Parse(inferred.JSON())
	require.NoError(b, err)
	run := func(name string, decode func(into *forecastIn) bool) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var into forecastIn
				if !decode(&into) {
					b.Fatal("refused")
				}
			}
		})
	}
	run("fast", func(into *forecastIn) bool { return inferred.Fill(goodForecast, into) == nil })
	run("full", func(into *forecastIn) bool { return parsed.Fill(goodForecast, into) == nil })
	run("unmarshal alone", func(into *forecastIn) bool { return jsonv2.Unmarshal(goodForecast, into) == nil })
	run("scan alone", func(*forecastIn) bool { _, ok := inferred.shape.admits(goodForecast, 0, new(oddities)); return ok })
	run("validate alone", func(*forecastIn) bool { return parsed.Faults(goodForecast) == nil })
	bad := jsontext.Value(`{"citty":"Trondheim","days":"5","metric":null,"tags":[1]}`)
	run("faults", func(into *forecastIn) bool { return inferred.Fill(bad, into) != nil })
}
