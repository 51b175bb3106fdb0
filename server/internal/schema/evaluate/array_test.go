package evaluate

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Items whose schema has their type alone are looked at in another way than those whose schema has more.
func TestItemsWithMoreThanAType(t *testing.T) {
	for more, value := range map[string]string{
		``:                                    `[1,"x"]`,
		`"minimum":2`:                         `[2,1]`,
		`"multipleOf":2`:                      `[2,1]`,
		`"enum":[2]`:                          `[2,1]`,
		`"const":2`:                           `[2,1]`,
		`"maxLength":1`:                       `["x","xx"]`,
		`"pattern":"^x$"`:                     `["x","y"]`,
		`"format":"date"`:                     `["2026-11-25","x"]`,
		`"required":["a"]`:                    `[{"a":1},{}]`,
		`"items":{"type":"string"}`:           `[["x"],[1]]`,
		`"not":{"const":1}`:                   `[2,1]`,
		`"anyOf":[{"const":2},{"const":"x"}]`: `["x",1]`,
		`"$ref":"#/$defs/two"`:                `[2,1]`,
		`"$dynamicRef":"#two"`:                `[2,1]`,
		`"if":{"const":1},"then":false`:       `[2,1]`,
		`"unevaluatedProperties":false`:       `[{},{"a":1}]`,
		`"unevaluatedItems":false`:            `[[],[1]]`,
	} {
		types := `"type":["number","string","array","object"]`
		if more == "" {
			types = `"type":"number"`
		} else {
			more = "," + more
		}
		p := compiled(t, `{"items":{`+types+more+`},"$defs":{"two":{"$dynamicAnchor":"two","const":2}}}`)
		findings, _, err := p.Run(t.Context(), []byte(value), 1000)
		require.NoError(t, err, more)
		require.Len(t, findings, 1, "%s of %s", more, value)
		require.Equal(t, "1", findings[0].At[0], more)
	}
}
