package mcp_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
)

func capabilities(t *testing.T, text string) (c mcp.ClientCapabilities) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), &c))
	return c
}

func TestLacksAndUnion(t *testing.T) {
	for _, tt := range []struct{ have, need, missing, union, words string }{
		{`{}`, `{}`, `{}`, `{}`, ``},
		{`{}`, `{"roots":{}}`, `{"roots":{}}`, `{"roots":{}}`, `roots`},
		{`{"roots":{"listChanged":true}}`, `{"roots":{}}`, `{}`, `{"roots":{"listChanged":true}}`, ``},
		{`{}`, `{"sampling":{}}`, `{"sampling":{}}`, `{"sampling":{}}`, `sampling`},
		{`{"sampling":{}}`, `{"sampling":{}}`, `{}`, `{"sampling":{}}`, ``},
		{`{"sampling":{"context":{}}}`, `{"sampling":{"tools":{},"context":{}}}`, `{"sampling":{"tools":{}}}`, `{"sampling":{"tools":{},"context":{}}}`, `sampling.tools`},
		{`{}`, `{"sampling":{"tools":{},"context":{}}}`, `{"sampling":{"tools":{},"context":{}}}`, `{"sampling":{"tools":{},"context":{}}}`, `sampling.context, sampling.tools`},
		{`{"sampling":{"tools":{}}}`, `{"sampling":{}}`, `{}`, `{"sampling":{"tools":{}}}`, ``},
		{`{}`, `{"elicitation":{}}`, `{"elicitation":{"form":{}}}`, `{"elicitation":{"form":{}}}`, `elicitation.form`},
		{`{"elicitation":{}}`, `{"elicitation":{"form":{}}}`, `{}`, `{"elicitation":{}}`, ``},
		{`{"elicitation":{}}`, `{"elicitation":{"url":{}}}`, `{"elicitation":{"url":{}}}`, `{"elicitation":{"form":{},"url":{}}}`, `elicitation.url`},
		{`{"elicitation":{"url":{}}}`, `{"elicitation":{"form":{},"url":{}}}`, `{"elicitation":{"form":{}}}`, `{"elicitation":{"form":{},"url":{}}}`, `elicitation.form`},
		{`{"extensions":{"a/b":{"x":1}}}`, `{"extensions":{"a/b":{},"c/d":{}}}`, `{"extensions":{"c/d":{}}}`, `{"extensions":{"a/b":{"x":1},"c/d":{}}}`, `c/d`},
		{`{}`, `{"experimental":{"e":{}},"roots":{}}`, `{"experimental":{"e":{}},"roots":{}}`, `{"experimental":{"e":{}},"roots":{}}`, `roots, e`},
	} {
		have, need := capabilities(t, tt.have), capabilities(t, tt.need)
		missing, lacks := have.Lacks(need)
		got, err := json.Marshal(missing)
		require.NoError(t, err)
		require.JSONEq(t, tt.missing, string(got), "%s lacks of %s", tt.have, tt.need)
		require.Equal(t, tt.missing != `{}`, lacks)
		union, err := json.Marshal(have.Union(need))
		require.NoError(t, err)
		require.JSONEq(t, tt.union, string(union), "%s or %s", tt.have, tt.need)
		again, err := json.Marshal(have)
		require.NoError(t, err)
		require.JSONEq(t, tt.have, string(again), "nothing was changed")
		if lacks {
			failed := fmt.Errorf("wrapped: %w", &mcp.NotDeclaredError{Missing: missing})
			require.ErrorIs(t, failed, mcp.ErrNotDeclared)
			require.False(t, errors.Is(failed, mcp.ErrNoBackChannel))
			require.EqualError(t, failed, "wrapped: mcp: the client has not declared this capability: "+tt.words)
		}
	}
}
