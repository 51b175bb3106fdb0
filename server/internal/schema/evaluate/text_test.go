package evaluate

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The escapes of a text are resolved once, however often it is looked at: schemas with alternatives ask for
// the names of an object again and again.
func TestTextsAreKept(t *testing.T) {
	var d document
	require.NoError(t, d.parse([]byte(`{"\u0061b":"c\nd","e":"\u0066","g":"é","\u0068":["\"",""]}`)))
	var texts []string
	var first [][]byte
	for v := range d.entries {
		if d.kind(uint32(v)) == stringKind {
			first = append(first, d.text(uint32(v)))
		}
	}
	for v, i := 0, 0; v < len(d.entries); v++ {
		if d.kind(uint32(v)) != stringKind {
			continue
		}
		again := d.text(uint32(v))
		texts = append(texts, string(first[i]))
		if len(again) > 0 {
			assert.Same(t, &first[i][0], &again[0], "entry %d", v)
		}
		i++
	}
	assert.Equal(t, []string{"ab", "c\nd", "e", "f", "g", "é", "h", `"`, ""}, texts)
	assert.Equal(t, `"\u0061b"`, string(d.literal(1)))
}

// A document that was used has nothing of the text before.
func TestADocumentForgetsTheTextBefore(t *testing.T) {
	var d document
	for _, text := range []string{`{"\u0061":1,"\u0062":2}`, `{"\u0063":3}`, `{"d":4}`} {
		require.NoError(t, d.parse([]byte(text)))
	}
	require.NoError(t, d.parse([]byte(`["\u0065","\u0066"]`)))
	assert.Equal(t, "e", string(d.text(1)))
	assert.Equal(t, "f", string(d.text(2)))
	assert.Equal(t, "ef", string(d.plain))
	assert.Len(t, d.escaped, 2)
	assert.ErrorIs(t, d.parse([]byte(`"\u00"`)), ErrSyntax)
}
