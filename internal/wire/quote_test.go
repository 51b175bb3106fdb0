package wire

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// quotes checks that a text is quoted as the library does.
func quotes(t *testing.T, text string) {
	t.Helper()
	want, _ := jsontext.AppendQuote([]byte("before"), text)
	if got := AppendString([]byte("before"), text); string(got) != string(want) {
		t.Errorf("%q: got %s, want %s", text, got, want)
	}
}

// Each byte is quoted as the library does, at each place of a block and at its end.
func TestAppendStringIsTheQuotingOfTheLibrary(t *testing.T) {
	pieces := []string{"é", "€", "𝄞", "\xf0\x9d", "\xff", "\u2028", "\ufffd", "<>&", "\x7f", "\xed\xa0\x80"}
	for c := range 256 {
		pieces = append(pieces, string([]byte{byte(c)}))
	}
	for _, piece := range pieces {
		for n := range mostBlock + 2 {
			quotes(t, strings.Repeat("x", n)+piece+"y")
			quotes(t, strings.Repeat("x", n)+piece)
			quotes(t, piece+strings.Repeat("x", n))
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var b strings.Builder
		for range random.IntN(400) {
			if random.IntN(4) == 0 {
				b.WriteString(pieces[random.IntN(len(pieces))])
			} else {
				b.WriteString("plain"[:random.IntN(6)])
			}
		}
		quotes(t, b.String())
	}
}

func BenchmarkAppendString(b *testing.B) {
	for name, text := range map[string]string{
		"short":   "hello",
		"plain":   strings.Repeat("x", 256<<10),
		"lines":   strings.Repeat(strings.Repeat("word ", 12)+"\n", 256<<10/61),
		"accents": strings.Repeat("un été à la plage ", 256<<10/21),
		"runes":   strings.Repeat("文字", 256<<10/6),
		"escapes": strings.Repeat("\n", 128<<10),
	} {
		buf := make([]byte, 0, 2<<20)
		b.Run(name+"/ours", func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				AppendString(buf, text)
			}
		})
		b.Run(name+"/library", func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				_, _ = jsontext.AppendQuote(buf, text)
			}
		})
	}
}
