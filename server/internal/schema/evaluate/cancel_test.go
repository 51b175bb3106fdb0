package evaluate

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// endsAfter is a context that has ended after so many looks at it.
type endsAfter struct {
	context.Context
	looks, seen int
}

func (c *endsAfter) Err() error {
	if c.seen++; c.seen > c.looks {
		return context.Canceled
	}
	return nil
}

// A validation that is cancelled while it runs ends at its next look, wherever it is, and looks often.
func TestCancelledWhileItRuns(t *testing.T) {
	var items strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&items, `{"a":[1,2,%d]},`, i)
	}
	value := []byte("[" + items.String() + "1]")
	for name, schema := range map[string]string{
		"items":     `{"items":{"anyOf":[{"type":"integer"},{"properties":{"a":{"items":{"minimum":0}}}}]}}`,
		"unique":    `{"uniqueItems":true}`,
		"recursive": `{"$ref":"#/$defs/v","$defs":{"v":{"items":{"$ref":"#/$defs/v"},"additionalProperties":{"$ref":"#/$defs/v"}}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			p := compiled(t, schema)
			whole := &endsAfter{t.Context(), 1 << 30, 0}
			const steps = 1 << 30
			_, _, err := p.Run(whole, value, steps)
			require.NoError(t, err)
			require.Greater(t, whole.seen, 3, "it must be long enough to be cancelled while it runs")
			for looks := range whole.seen {
				c := &endsAfter{t.Context(), looks, 0}
				_, _, err := p.Run(c, value, steps)
				require.ErrorIs(t, err, context.Canceled)
				require.LessOrEqual(t, c.seen, looks+2, "it goes on for %d looks", c.seen-looks)
			}
		})
	}
}
