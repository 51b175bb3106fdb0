package wire

import (
	stdjson "encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/mcp"
)

func mustID(t *testing.T, raw string) mcp.ID {
	t.Helper()
	id, err := parseID(jsontext.Value(raw))
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// checkFrame fails unless b is one line of valid JSON.
func checkFrame(t *testing.T, b []byte) {
	t.Helper()
	if strings.ContainsAny(string(b), "\r\n") {
		t.Errorf("a frame has a raw line break: %q", b)
	}
	if !jsontext.Value(b).IsValid() {
		t.Errorf("a frame is not valid JSON: %q", b)
	}
}

func TestAppendFrames(t *testing.T) {
	one, escaped := mustID(t, "1.0"), mustID(t, `"\u0031"`)
	failure := mcp.NewError(mcp.CodeInvalidParams, "no %q\n", "x")
	for _, tt := range []struct{ got, want string }{
		{string(append(AppendResponseHead(nil, escaped), "{}}"...)), `{"jsonrpc":"2.0","id":"\u0031","result":{}}`},
		{string(append(AppendResponseHead(nil, one), "{}}"...)), `{"jsonrpc":"2.0","id":1.0,"result":{}}`},
		{string(AppendError(nil, one, failure)), `{"jsonrpc":"2.0","id":1.0,"error":{"code":-32602,"message":"no \"x\"\n"}}`},
		{string(AppendError(nil, mcp.ID{}, failure)), `{"jsonrpc":"2.0","error":{"code":-32602,"message":"no \"x\"\n"}}`},
		{string(AppendErrorNullID(nil, failure)), `{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"no \"x\"\n"}}`},
		{
			string(AppendError(nil, one, failure.WithData(map[string]any{"b": 1, "a": "\xff"}))),
			`{"jsonrpc":"2.0","id":1.0,"error":{"code":-32602,"message":"no \"x\"\n","data":{"a":"` + "\uFFFD" + `","b":1}}}`,
		},
		{
			string(AppendError(nil, one, failure.WithData(func() {}))),
			`{"jsonrpc":"2.0","id":1.0,"error":{"code":-32602,"message":"no \"x\"\n"}}`,
		},
		{string(AppendNotification(nil, "a/b", nil)), `{"jsonrpc":"2.0","method":"a/b"}`},
		{string(AppendNotification(nil, "a\nb", []byte(`{"x":1}`))), `{"jsonrpc":"2.0","method":"a\nb","params":{"x":1}}`},
		{string(AppendRequest(nil, escaped, "roots/list", nil)), `{"jsonrpc":"2.0","id":"\u0031","method":"roots/list"}`},
		{string(AppendRequest(nil, one, "m", []byte("[\r\n1,\n2\r\n]"))), `{"jsonrpc":"2.0","id":1.0,"method":"m","params":[  1, 2  ]}`},
	} {
		want := strings.ReplaceAll(tt.want, "\n", `\n`)
		if tt.got != want {
			t.Errorf("got  %s\nwant %s", tt.got, want)
		}
		checkFrame(t, []byte(tt.got))
	}
	if got := string(AppendRequest([]byte("before\n"), one, "m", []byte("{\n}"))); got != "before\n"+`{"jsonrpc":"2.0","id":1.0,"method":"m","params":{ }}` {
		t.Errorf("what dst held was changed: %q", got)
	}
}

// Raw params come from the caller. Line breaks between their tokens must not split the frame.
func TestLineBreaksInParamsDoNotSplitTheFrame(t *testing.T) {
	params := []byte("{\n\t\"a\" : \"x\\ny\",\r\n\"b\":[1,\r2]\n}\n")
	kept := string(params)
	got := AppendRequest(nil, mcp.IntID(1), "m", params)
	checkFrame(t, got)
	if string(params) != kept {
		t.Error("the caller's params were written to")
	}
	env, err := Decode(got, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	a, b := jsontext.Value(kept), env.Params.Clone()
	if a.Compact() != nil || b.Compact() != nil || string(a) != string(b) {
		t.Errorf("the params changed: %s", env.Params)
	}
}

func TestAppendString(t *testing.T) {
	for _, s := range []string{"", "plain", "a\"b\\c", "\x00\x1f\n\r\t", "é\u2028\u2029😀", "</script>"} {
		b := AppendString([]byte("x"), s)
		checkFrame(t, b[1:])
		if got, err := jsontext.AppendUnquote(nil, b[1:]); err != nil || string(got) != s {
			t.Errorf("AppendString(%q) = %s, %v", s, b, err)
		}
	}
	if got := string(AppendString(nil, "a\xffb\xed\xa0\x80")); got != `"a`+"\uFFFD"+`b`+"\uFFFD\uFFFD\uFFFD"+`"` {
		t.Errorf("invalid UTF-8: %q", got)
	}
}

type oddJSON struct{ text string }

func (o oddJSON) MarshalJSON() ([]byte, error) { return []byte(o.text), nil }

func TestMarshal(t *testing.T) {
	type doc struct {
		V jsontext.Value     `json:"v,omitzero"`
		R stdjson.RawMessage `json:"r,omitzero"`
		O any                `json:"o,omitzero"`
		S string             `json:"s,omitzero"`
		L []int              `json:"l,omitzero"`
	}
	const spread = "{\r\n  \"a\" : [ 1,\n2 ] }\n"
	for _, tt := range []struct {
		v    any
		want string
	}{
		{nil, `null`},
		{map[string]int{"b": 1, "a": 2, "c": 3}, `{"a":2,"b":1,"c":3}`},
		{doc{V: jsontext.Value(spread)}, `{"v":{"a":[1,2]}}`},
		{doc{R: stdjson.RawMessage(spread)}, `{"r":{"a":[1,2]}}`},
		{doc{O: oddJSON{spread}}, `{"o":{"a":[1,2]}}`},
		{doc{O: oddJSON{"\"a\xff\""}}, `{"o":"a` + "\uFFFD" + `"}`},
		{doc{V: jsontext.Value("\"\xff\"")}, `{"v":"` + "\uFFFD" + `"}`},
		{doc{S: "a\xff\n<&>"}, `{"s":"a` + "\uFFFD" + `\n<&>"}`},
		{[]doc{{L: []int{}}}, `[{"l":[]}]`},
		{jsontext.Value(spread), `{"a":[1,2]}`},
	} {
		got, err := Marshal([]byte("x"), tt.v)
		if err != nil || string(got) != "x"+tt.want {
			t.Errorf("Marshal(%+v) = %q, %v, want %q", tt.v, got, err, tt.want)
			continue
		}
		checkFrame(t, got[1:])
	}
}

func TestMarshalErrors(t *testing.T) {
	for _, v := range []any{
		math.NaN(), func() {}, oddJSON{"{"}, oddJSON{"1 2"}, oddJSON{`{"a":1,"a":2}`}, jsontext.Value("{"),
	} {
		dst := append(make([]byte, 0, 64), "kept"...)
		got, err := Marshal(dst, v)
		if err == nil || string(got) != "kept" {
			t.Errorf("Marshal(%v) = %q, %v", v, got, err)
		}
	}
	var sem *json.SemanticError
	if _, err := Marshal(nil, func() {}); !errors.As(err, &sem) {
		t.Errorf("the error of json is hidden: %v", err)
	}
}

func TestEncodeAllocations(t *testing.T) {
	dst := make([]byte, 0, 1024)
	id, e, raw := mcp.IntID(12345), mcp.NewError(mcp.CodeInternalError, "internal error"), []byte(`{"a":"b"}`)
	if n := testing.AllocsPerRun(100, func() {
		dst = AppendResponseHead(dst[:0], id)
		dst = AppendError(dst[:0], id, e)
		dst = AppendNotification(dst[:0], "notifications/progress", raw)
		dst = AppendRequest(dst[:0], id, "roots/list", raw)
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func TestSetMeta(t *testing.T) {
	set := map[string]string{"b": "2", "a": "\"1\n"}
	for params, want := range map[string]string{
		``:                                  `{"_meta":{"a":"\"1\n","b":"2"}}`,
		`{}`:                                `{"_meta":{"a":"\"1\n","b":"2"}}`,
		`{"z":1,"y":[ 2 ]}`:                 `{"_meta":{"a":"\"1\n","b":"2"},"z":1,"y":[2]}`,
		`{"z":1,"_meta":{"b":0,"c":{}}}`:    `{"_meta":{"a":"\"1\n","b":"2","c":{}},"z":1}`,
		`{"_meta":null}`:                    `{"_meta":{"a":"\"1\n","b":"2"}}`,
		`{"_meta":7}`:                       `{"_meta":7}`,
		`[1]`:                               `[1]`,
		`{"n":9007199254740993,"f":1.0E+2}`: `{"_meta":{"a":"\"1\n","b":"2"},"n":9007199254740993,"f":1.0E+2}`,
	} {
		if got := string(SetMeta([]byte(params), set)); got != want {
			t.Errorf("%s: got %s, want %s", params, got, want)
		}
		if got := string(SetMeta([]byte(params), nil)); got != params {
			t.Errorf("%s: nothing is set, and it became %s", params, got)
		}
	}
}
