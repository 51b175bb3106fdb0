package schema

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	jsv "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/server/internal/schema/evaluate"
)

// TestFaultsAreThoseOfTheCompiler makes random schemas and values and compares verdicts and words with
// the compiler's own evaluation. It cannot be used for values from outside, but it is right about
// small ones.
func TestFaultsAreThoseOfTheCompiler(t *testing.T) {
	invalid, alternatives := 0, 0
	for seed := range uint64(1500) {
		g := chance{rand.New(rand.NewPCG(seed, 16)), dialects[seed%6]}
		raw := g.document()
		s, err := Parse(raw)
		if err != nil {
			continue // two equal values in an enum, for example
		}
		for range 12 {
			value := jsontext.Value(g.text(3))
			tree, _, err := parseValue(value, 0)
			require.NoError(t, err)
			var want []Fault
			if err := s.compiled.Validate(tree); err != nil {
				invalid := err.(*jsv.ValidationError)
				findings := collect(nil, invalid, tree)
				evaluate.Sort(findings)
				if len(findings) > maxFaults {
					continue // others are kept
				}
				want = worded(counted(findings), false)
			}
			got, err := s.Validate(context.Background(), Steps, value)
			require.NoError(t, err)
			require.Equal(t, len(want) == 0, len(got) == 0, "%s for %s: %v, %v", raw, value, want, got)
			if strings.Contains(string(raw), "propertyNames") {
				continue // the compiler loses places
			}
			// The compiler's order of faults with one path depends on the order of Go maps.
			require.ElementsMatch(t, want, got, "%s for %s", raw, value)
			if len(got) > 0 {
				invalid++
			}
			if strings.Contains(fmt.Sprint(got), "alternative") {
				alternatives++
			}
		}
	}
	t.Logf("%d invalid values, %d with alternatives", invalid, alternatives)
	require.Greater(t, invalid, 2000)
	require.Greater(t, alternatives, 200)
}

// counted replaces the kinds that list what they count.
func counted(findings []evaluate.Finding) []evaluate.Finding {
	for i, f := range findings {
		switch k := f.Kind.(type) {
		case *kind.MinContains:
			findings[i].Kind = &evaluate.Contained{Want: k.Want, Got: len(k.Got)}
		case *kind.MaxContains:
			findings[i].Kind = &evaluate.Contained{Want: k.Want, Got: len(k.Got), AtMost: true}
		}
		counted(f.Causes)
	}
	return findings
}

// A chance makes schemas and values at random.
type chance struct {
	*rand.Rand
	dialect string
}

func (g chance) pick(of ...string) string { return of[g.IntN(len(of))] }

// document returns a schema with definitions.
func (g chance) document() jsontext.Value {
	uri := "https://" + g.dialect
	if strings.Contains(g.dialect, "draft-0") {
		uri = "http://" + g.dialect + "#"
	}
	root := map[string]any{"$schema": uri}
	definitions := map[string]any{}
	for _, name := range []string{"a", "b", "c"} {
		definitions[name] = g.schema(2)
	}
	definitions["r"] = true
	switch anchored := g.IntN(2) == 0; {
	case anchored && strings.Contains(g.dialect, "2020"):
		definitions["r"] = map[string]any{"$id": "https://example.com/r", "$dynamicAnchor": "x", "items": map[string]any{"$dynamicRef": "#x"}}
		root["$dynamicAnchor"] = "x"
	case anchored && strings.Contains(g.dialect, "2019"):
		definitions["r"] = map[string]any{"$id": "https://example.com/r", "$recursiveAnchor": true, "items": map[string]any{"$recursiveRef": "#"}}
		root["$recursiveAnchor"] = true
	case strings.Contains(g.dialect, "draft-04"):
		definitions["r"] = map[string]any{}
	}
	if sub, ok := g.schema(3).(map[string]any); ok {
		for keyword, value := range sub {
			root[keyword] = value
		}
	}
	root["definitions"] = definitions
	raw, err := json.Marshal(root)
	if err != nil {
		panic(err)
	}
	return raw
}

func (g chance) schema(depth int) any {
	if g.IntN(12) == 0 && !strings.Contains(g.dialect, "draft-04") {
		return g.IntN(3) > 0
	}
	s := map[string]any{}
	for range 1 + g.IntN(3) {
		g.keyword(s, depth)
	}
	return s
}

func (g chance) schemas(depth int) (list []any) {
	for range 1 + g.IntN(3) {
		list = append(list, g.schema(depth))
	}
	return list
}

func (g chance) keyword(s map[string]any, depth int) {
	names := []string{"a", "b", "c", "d"}
	if depth > 0 && g.IntN(3) > 0 {
		keyword := g.pick("anyOf", "oneOf", "allOf", "not", "if", "properties", "properties", "patternProperties", "additionalProperties",
			"items", "items", "prefixItems", "contains", "unevaluatedProperties", "unevaluatedItems", "propertyNames", "dependentSchemas",
			"dependencies", "$ref", "$ref", "additionalItems")
		switch keyword {
		case "anyOf", "oneOf", "allOf", "prefixItems":
			s[keyword] = g.schemas(depth - 1)
		case "properties", "dependentSchemas", "dependencies":
			s[keyword] = map[string]any{g.pick(names...): g.schema(depth - 1), g.pick(names...): g.schema(depth - 1)}
		case "patternProperties":
			s[keyword] = map[string]any{g.pick("^[ab]", "c|d", "."): g.schema(depth - 1)}
		case "if":
			s["if"], s["then"], s["else"] = g.schema(depth-1), g.schema(depth-1), g.schema(depth-1)
		case "$ref":
			s[keyword] = g.pick("#", "#/definitions/a", "#/definitions/b", "#/definitions/c", "#/definitions/r")
		default:
			s[keyword] = g.schema(depth - 1)
		}
		return
	}
	switch keyword := g.pick("type", "type", "enum", "const", "minimum", "exclusiveMaximum", "multipleOf", "minLength", "pattern", "required",
		"minItems", "maxItems", "uniqueItems", "minProperties", "dependentRequired", "format", "maxContains"); keyword {
	case "type":
		s[keyword] = g.pick("string", "integer", "number", "object", "array", "null", "boolean")
	case "enum":
		s[keyword] = []any{json.RawMessage(g.text(1)), "a", 1.5}
		if string(s[keyword].([]any)[0].(json.RawMessage)) == "1.5" {
			s[keyword] = []any{1.5}
		}
	case "const":
		s[keyword] = json.RawMessage(g.text(1))
	case "minimum", "minItems", "minLength", "minProperties", "maxItems":
		s[keyword] = g.IntN(3)
	case "exclusiveMaximum":
		if s[keyword] = 1.5; strings.Contains(g.dialect, "draft-04") {
			s[keyword], s["maximum"] = true, 1.5
		}
	case "multipleOf":
		s[keyword] = json.RawMessage(g.pick("0.01", "2", "1e-3", "25", "12345678901234567890123"))
	case "pattern":
		s[keyword] = g.pick("^a", "b$", "[0-9]", "é")
	case "required":
		s[keyword] = []string{g.pick(names...)}
	case "uniqueItems":
		s[keyword] = true
	case "dependentRequired":
		s[keyword] = map[string]any{g.pick(names...): []string{g.pick(names...)}}
	case "format":
		s[keyword] = g.pick("email", "ipv4", "regex", "date-time")
	case "maxContains":
		s["contains"], s["maxContains"], s["minContains"] = g.schema(0), g.IntN(3), g.IntN(2)
	}
}

// text returns the JSON of a value.
func (g chance) text(depth int) string {
	if depth > 0 && g.IntN(3) > 0 {
		var parts []string
		if g.IntN(2) == 0 {
			for range g.IntN(5) {
				parts = append(parts, g.text(depth-1))
			}
			return "[" + strings.Join(parts, ",") + "]"
		}
		for _, name := range []string{`"a"`, `"b"`, `"\u0063"`, `"d"`, `"e"`} {
			if g.IntN(2) == 0 {
				parts = append(parts, name+" : "+g.text(depth-1))
			}
		}
		g.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
		return "{" + strings.Join(parts, ",") + "}"
	}
	return g.pick("null", "true", "false", "0", "-0.0", "1", "1.0", "10e-1", "1.5", "2", "25", "0.01", "1e2", "1e-3",
		"12345678901234567890123", "-7", `""`, `"a"`, `"\u0061"`, `"ab"`, `"é9"`, `"a@b.c"`, `"1.2.3.4"`)
}
