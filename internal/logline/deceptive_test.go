package logline

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// deceptive returns all characters without a shape of their own, and those that change the
// direction of text.
func deceptive() (all []rune) {
	for r := range unicode.MaxRune + 1 {
		if unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Bidi_Control, unicode.Join_Control,
			unicode.Other_Default_Ignorable_Code_Point) {
			all = append(all, r)
		}
	}
	return all
}

func TestDeceptiveCharactersAreReplaced(t *testing.T) {
	require.Greater(t, len(deceptive()), 200)
	for _, r := range deceptive() {
		require.Equal(t, "a\ufffdb", Printable("a"+string(r)+"b", 100), "%U", r)
		var text bytes.Buffer
		fmt.Fprintf(Text(&text), "a%cb", r)
		if r == '\n' || r == '\t' {
			require.Equal(t, "a"+string(r)+"b", text.String())
		} else {
			require.Equal(t, "a\ufffdb", text.String(), "%U", r)
		}
	}
}

// A text of any language, and the pictures that many characters make, stay.
func TestReadableTextStays(t *testing.T) {
	for _, text := range []string{"", "plain", "日本語 עברית العربية", "naïve – “quoted”", "😀❤️", "a\u00a0b", "\ue000"} {
		require.Equal(t, text, Printable(text, 1000))
	}
	require.Equal(t, "é", Printable("éé", 3), "a character is not cut")
}

// The escapes are read as the same text.
func TestJSONReadsAsTheSameText(t *testing.T) {
	for _, r := range deceptive() {
		want := "é" + string(r) + "😀"
		raw, err := json.Marshal(want)
		require.NoError(t, err)
		var out bytes.Buffer
		n, err := JSON(&out).Write(raw)
		require.NoError(t, err)
		require.Equal(t, len(raw), n)
		require.False(t, bytes.ContainsFunc(out.Bytes(), func(r rune) bool { return r >= utf8.RuneSelf && Deceptive(r) }), "%U: %s", r, out.Bytes())
		var got string
		require.NoError(t, json.Unmarshal(out.Bytes(), &got), "%s", out.Bytes())
		require.Equal(t, want, got)
	}
}
