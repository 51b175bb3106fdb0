package schema

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
)

// A validation allocates no more for each byte of its value than docs/limits.md says, whatever the
// value is.
func TestValidationTakesWhatItMayTake(t *testing.T) {
	const size = 1 << 20
	parts := limits.Parts()
	cost := parts[slices.IndexFunc(parts, func(p limits.Part) bool { return p.Name == limits.PartValidation })].Cost
	var distinct strings.Builder
	for i := 0; distinct.Len() < size; i++ {
		fmt.Fprintf(&distinct, "%d,", i)
	}
	values := []string{distinct.String()}
	for _, item := range []string{"1", "[]", "{}", `""`, `{"a":1}`, "[[[1]]]", `"text"`, "1e5"} {
		values = append(values, strings.Repeat(item+",", size/(len(item)+1)))
	}
	for _, items := range []string{`"uniqueItems":true`, `"items":{"type":"string"}`, `"items":{"anyOf":[{"type":"object"},{"type":"integer"}]}`} {
		s, err := Parse(jsontext.Value(`{"type":"object","properties":{"v":{"type":"array",` + items + `}}}`))
		require.NoError(t, err)
		for _, value := range values {
			raw := jsontext.Value(`{"v":[` + strings.TrimSuffix(value, ",") + "]}")
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := s.Validate(context.Background(), Steps, raw)
			runtime.ReadMemStats(&after)
			require.NoError(t, err)
			took := float64(after.TotalAlloc-before.TotalAlloc) / float64(len(raw))
			require.LessOrEqual(t, took, float64(cost), "bytes for each byte of %.60s with %s", value, items)
		}
	}
}
