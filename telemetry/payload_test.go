package telemetry

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// The arguments and the result of a tool are on its span if the program wants them, up to its
// limit.
func TestPayloads(t *testing.T) {
	const arguments, result = "gen_ai.tool.call.arguments", "gen_ai.tool.call.result"
	masked := func(tool string, value jsontext.Value) jsontext.Value {
		return bytes.ReplaceAll(value, []byte("secret"), []byte("***"+tool))
	}
	nothing := func(string, jsontext.Value) jsontext.Value { return nil }
	boom := func(string, jsontext.Value) jsontext.Value { panic("redactor") }
	const given, returned = `{"key":"secret"}`, `"text":"secret"`
	for name, tt := range map[string]struct {
		env               string
		options           []Option
		arguments, result string // what they contain; "" is not there
		panics            float64
	}{
		"default":            {},
		"environment":        {env: "TRUE", arguments: given, result: returned},
		"environment, false": {env: "false"},
		"arguments":          {options: []Option{WithArguments(nil)}, arguments: given},
		"an option is all":   {env: "true", options: []Option{WithArguments(nil)}, arguments: given},
		"results":            {options: []Option{WithResults(nil)}, result: returned},
		"redacted": {options: []Option{WithArguments(masked), WithResults(masked)},
			arguments: `{"key":"***t"}`, result: `"text":"***t"`},
		"left out": {options: []Option{WithArguments(nothing), WithResults(nothing)}},
		"panics":   {options: []Option{WithArguments(boom), WithResults(boom)}, panics: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(captureContent, tt.env)
			r := newRig(t, rigConfig{telemetry: tt.options})
			r.tools["t"] = func(_ context.Context, q *session.Request) (mcp.Result, error) {
				res := &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "secret"}}}
				TestBridge.Result(q, res)
				return res, nil
			}
			in := call("t")
			in.Arguments = jsontext.Value(given)
			s := &sink{}
			r.post(in, s)
			require.Equal(t, 1, s.frames, "the caller has its answer")
			require.Equal(t, given, string(in.Arguments))
			attrs := attrsOf(r.span())
			for key, want := range map[string]string{arguments: tt.arguments, result: tt.result} {
				if want == "" {
					require.NotContains(t, attrs, key)
				} else {
					require.Contains(t, attrs[key], want)
				}
			}
			require.Equal(t, tt.panics, value(gather(t, r.tel.Registry()), MetricPanics))
		})
	}
}

func TestPayloadIsCut(t *testing.T) {
	r := newRig(t, rigConfig{telemetry: []Option{WithArguments(nil)}})
	in := call("echo")
	in.Arguments = jsontext.Value(`{"a":"` + strings.Repeat("x", 1<<20) + "\u0000\x1b" + `"}`)
	r.post(in, &sink{})
	recorded := attrsOf(r.span())["gen_ai.tool.call.arguments"].(string)
	require.Len(t, recorded, maxPayload)
}

// The arguments of a tool that does not exist are not on the span.
func TestPayloadOfAnUnknownTool(t *testing.T) {
	r := newRig(t, rigConfig{telemetry: []Option{WithArguments(nil)}})
	in := call("nope")
	in.Arguments = jsontext.Value(`{}`)
	r.post(in, &sink{})
	require.NotContains(t, attrsOf(r.span()), "gen_ai.tool.call.arguments")
}
