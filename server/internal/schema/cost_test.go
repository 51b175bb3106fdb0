package schema

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// frame is the largest message by default.
const frame = 4 << 20

// repeated returns JSON of about a frame: parts between open and close, with commas.
func repeated(open string, part func(i int) string, close string, size int) []byte {
	var b strings.Builder
	b.WriteString(open)
	for i := 0; b.Len() < size-len(close)-64; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(part(i))
	}
	b.WriteString(close)
	return []byte(b.String())
}

// cpu returns the CPU time of the process.
func cpu(t *testing.T) time.Duration {
	var used unix.Rusage
	require.NoError(t, unix.Getrusage(unix.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func same(s string) func(int) string { return func(int) string { return s } }

// chain is a recursive value that is invalid at its end.
func chain(depth int) []byte {
	return []byte(strings.Repeat(`{"a":`, depth) + "1" + strings.Repeat("}", depth))
}

var costCases = []struct {
	name, schema string
	value        []byte
	valid        bool
	steps        bool // the limit may be reached
}{
	{"recursive anyOf", `{"anyOf":[{"type":"object","properties":{"a":{"$ref":"#"}},"required":["b"]},{"type":"object","properties":{"a":{"$ref":"#"}},"required":["c"]}]}`, chain(60), false, false},
	{"recursive oneOf", `{"oneOf":[{"type":"null"},{"properties":{"a":{"$ref":"#"}}},{"properties":{"a":{"$ref":"#"}},"required":["c"]}]}`, chain(60), false, false},
	{"wrong items", `{"items":{"type":"string"}}`, repeated("[", same("1"), "]", frame), false, false},
	{"wrong items of two kinds", `{"items":{"anyOf":[{"type":"string"},{"type":"null"}]}}`, repeated("[", same("1"), "]", frame), false, false},
	{"numbers", `{"items":{"type":"number","minimum":0,"maximum":9}}`, repeated("[", same("1"), "]", frame), true, false},
	{"integers", `{"items":{"type":"integer","minimum":0,"maximum":9,"multipleOf":0.01}}`, repeated("[", same("1"), "]", frame), true, true},
	{"embeddings", `{"items":{"type":"array","items":{"type":"number","minimum":-1,"maximum":1}}}`, repeated("[[", func(i int) string {
		if i%1000 == 999 {
			return "0.123456789],[0.1"
		}
		return "-0.12345678"
	}, "]]", frame), true, false},
	{"table", `{"items":{"type":"object","properties":{"id":{"type":"integer"},"name":{"type":"string","maxLength":40},"ok":{"type":"boolean"}},"required":["id","name"],"additionalProperties":false}}`,
		repeated("[", func(i int) string { return fmt.Sprintf(`{"id":%d,"name":"row %d","ok":true}`, i, i) }, "]", frame), true, false},
	{"long exponents", `{"items":{"minimum":0.5,"multipleOf":0.01}}`, repeated("[", same("1e512"), "]", frame), true, true},
	{"long digits", `{"items":{"minimum":0.5,"multipleOf":12345678901234567890123}}`, repeated("[", same(strings.Repeat("7", 512)), "]", frame), false, true},
	{"unique nested arrays", `{"uniqueItems":true}`, repeated("[", func(i int) string { return fmt.Sprintf("[[%d],[%d]]", i%1000, i/1000) }, "]", frame), true, false},
	{"unique numbers", `{"uniqueItems":true}`, repeated("[", func(i int) string { return fmt.Sprint(i) }, "]", frame), true, false},
	{"unique at each level", `{"$ref":"#/$defs/u","$defs":{"u":{"uniqueItems":true,"items":{"$ref":"#/$defs/u"}}}}`,
		repeated(strings.Repeat("[", 60), func(i int) string { return fmt.Sprint(i) }, strings.Repeat("]", 60), frame), true, true},
	{"members", `{"additionalProperties":{"type":"integer"}}`, repeated("{", func(i int) string { return fmt.Sprintf(`"%x":1`, i) }, "}", frame), true, false},
	{"members and patterns", `{"patternProperties":{"^[a-z]+$":true,"[0-9]":true,"^(a|b|c)*$":{"type":"integer"}}}`, repeated("{", func(i int) string { return fmt.Sprintf(`"%x":1`, i) }, "}", frame), true, true},
	{"unevaluated members", `{"anyOf":[{"properties":{"a":true}},{"patternProperties":{"^[0-9]":true}}],"unevaluatedProperties":{"type":"integer"}}`,
		repeated("{", func(i int) string { return fmt.Sprintf(`"%x":1`, i) }, "}", frame), true, false},
	{"unevaluated items", `{"anyOf":[{"contains":{"const":1}},{"prefixItems":[true]}],"unevaluatedItems":false}`, repeated("[", same("1"), "]", frame), true, false},
	{"empty arrays", `{"items":{"type":"array"}}`, repeated("[", same("[]"), "]", frame), true, false},
	{"a slow pattern", `{"pattern":"^(a?){400}b"}`, []byte(`"` + strings.Repeat("a", frame-2) + `"`), false, true},
	{"a long text with a pattern", `{"pattern":"^[a-z]+$"}`, []byte(`"` + strings.Repeat("a", frame-2) + `"`), true, false},
	{"escapes", `{"minLength":5}`, []byte(`"` + strings.Repeat(`\u0061`, frame/6-2) + `"`), true, false},
	{"short texts with escapes", `{"items":{"maxLength":3}}`, repeated("[", same(`"\n"`), "]", frame), true, false},
	{"names with escapes", `{"patternProperties":{"^a":{"type":"integer"}}}`, repeated("{", func(i int) string { return fmt.Sprintf(`"\u0061%x":1`, i) }, "}", frame), true, true},
	{"names with escapes in a recursive anyOf", `{"anyOf":[{"properties":{"a":{"$ref":"#"},"k":{"const":"x"}},"required":["b"]},{"properties":{"a":{"$ref":"#"}},"required":["c"]}]}`,
		repeated(`{"a":{"a":{"a":{`, func(i int) string { return fmt.Sprintf(`"\u0061%x":1`, i) }, "}}}}", frame), false, true},
	{"not a number", `{"items":{"enum":[0,2,3]}}`, repeated("[", same("1"), "]", frame), false, false},
	{"enum", `{"items":{"enum":[0,1,2,3]}}`, repeated("[", same("1"), "]", frame), true, false},
	{"regex format", `{"$schema":"http://json-schema.org/draft-07/schema#","format":"regex"}`, []byte(`"` + strings.Repeat("(a|b)", frame/5-2) + `"`), false, true},
	{"pointer format", `{"$schema":"http://json-schema.org/draft-07/schema#","format":"json-pointer"}`, []byte(`"` + strings.Repeat("/", frame-2) + `"`), false, true},
	{"branches for one value", branching(40), []byte(`1`), false, false},
	{"branches with unevaluated", strings.Replace(branching(40), `{`, `{"unevaluatedProperties":false,`, 1), []byte(`{}`), false, true},
	{"contains", `{"contains":{"const":0},"minContains":1000000}`, repeated("[", same("0"), "]", frame), true, false},
	{"recursive any JSON", `{"anyOf":[{"type":["number","string","null","boolean"]},{"items":{"$ref":"#"}}]}`, repeated("[", same("[[1]]"), "]", frame), true, true},
}

// branching is a schema whose definitions refer to the next one twice.
func branching(n int) string {
	var b strings.Builder
	b.WriteString(`{"$ref":"#/$defs/d0","$defs":{`)
	for i := range n {
		fmt.Fprintf(&b, `"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]},`, i, i+1, i+1)
	}
	fmt.Fprintf(&b, `"d%d":{"type":"null"}}}`, n)
	return b.String()
}
