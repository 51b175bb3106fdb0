package wire

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// oracleValues are JSON values and what only looks like them.
var oracleValues = []string{
	// numbers
	`0`, `-0`, `-`, `+1`, `01`, `-01`, `00`, `1`, `12345678901234567890`, `1.`, `1.0`, `.5`, `0.5`, `-0.5`, `1.5.5`, `1e`, `1e5`, `1E5`,
	`1e+5`, `1e-5`, `1e+`, `1e-`, `1e05`, `1.e5`, `1.5e5`, `0e0`, `0.0e0`, `1e5.5`, `1e5e5`, `1ee5`, `--1`, `-a`, `1a`, `0x10`, `1_0`, `1-`, `1+1`,
	`Infinity`, `NaN`, `-Infinity`, `1,`, `1 2`,
	// literals
	`true`, `false`, `null`, `tru`, `fals`, `nul`, `True`, `NULL`, `truex`, `nullnull`, `true false`, `t`, `f`, `n`, `undefined`,
	// strings
	`""`, `"`, `"a`, `a"`, `'a'`, `"a" "b"`, `"a"b`, `"a\"`, `"a\""`, `"\\"`, `"\\\"`, `"\/\b\f\n\r\t"`, `"\a"`, `"\'"`, `"\0"`, `"\x41"`, `"\U0041"`, `"\`,
	`"\u0041"`, `"\u004"`, `"\u004g"`, `"\u00e9"`, `"\u00E9"`, `"\u 041"`, `"\u+041"`, `"\u`, `"\u0`, `"\u00"`, `"\u0000"`, `"\uFFFF"`, `"\ufffd"`,
	`"\ud83d\ude00"`, `"\uD83D\uDE00"`, `"\ud800"`, `"\udc00"`, `"\ud800\ud800"`, `"\udc00\ud800"`, `"\ud800\u0041"`, `"\ud800x"`, `"\ud800xxxxxx"`, `"\ud800\n"`,
	`"\ud800\`, `"\ud800\u`, `"\ud800\udc0`, `"\ud800\udc0"`, `"\ud800\udc0g"`, `"\ud800 \udc00"`, `"\udbff\udfff"`, `"\udbff\udbff"`, `"\udbff\ue000"`, `"\ue000\udc00"`,
	`"\ud7ff"`, `"\ue000"`, `"\ud800/udc00"`, `"\ud800\Udc00"`, `"\ud83d\ude00\ud83d"`,
	"\"\x00\"", "\"\x1f\"", "\"\x20\"", "\"\x7f\"", "\"\n\"", "\"\t\"", "\"\r\"", "\"a\x01b\"", "\"aaaaaaaa\x1f\"", "\"\\u00\n1\"", "\"\\\n\"", "\"\\\x00\"",
	// UTF-8, and not
	`"é"`, `"日本語"`, `"😀"`, "\"\u2028\"", "\"\ufffd\"", "\"\ufeff\"", "\ufeff1", "\"\U0010ffff\"", "\"\u0080\"", "\"\u07ff\u0800\uffff\U00010000\"",
	"\"\x80\"", "\"\xff\"", "\"\xc3\"", "\"\xc3\x28\"", "\"\xc0\x80\"", "\"\xc1\xbf\"", "\"\xe0\x80\x80\"", "\"\xe0\x9f\xbf\"", "\"\xed\xa0\x80\"", "\"\xed\xbf\xbf\"",
	"\"\xf0\x80\x80\x80\"", "\"\xf4\x90\x80\x80\"", "\"\xf5\x80\x80\x80\"", "\"\xe2\x82\"", "\"\xf0\x9f\x98\"", "\"\\\xc3\xa9\"", "\"é\xff\"", "\"\xc3",
	"\xff", "1\xff", "é", "\u00a01", "\u20281",
	// arrays
	`[]`, `[ ]`, `[1]`, `[1,2]`, ` [ 1 , 2 ] `, `[`, `]`, `[1`, `[1,`, `[1,]`, `[,1]`, `[,]`, `[1,,2]`, `[1 2]`, `[1:2]`, `[1}`, `[[]]`, `[[],[]]`, `[[[1]]]`, `[[}`, `[1]]`, `["a",true,null,{}]`, `[:]`, `[x]`, "[\v]", "[\f1]",
	// objects
	`{}`, `{ }`, `{"a":1}`, ` { "a" : 1 , "b" : 2 } `, `{`, `}`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `{,}`, `{,"a":1}`, `{"a":1,,"b":2}`, `{"a" 1}`, `{"a"::1}`, `{"a",1}`, `{"a":}`, `{:1}`, `{a:1}`, `{'a':1}`, `{1:1}`, `{null:1}`, `{true:1}`, `{[]:1}`, `{{}:1}`,
	`{"a":1 "b":2}`, `{"a":1;"b":2}`, `{"a":1]`, `{"a":1}}`, `{"a":1:"b"}`, `{"a"}`, `{"a","b"}`, `{"":1}`, `{"a":{}}`, `{"a":{"a":{"a":1}}}`, `{"a":[{"a":1}]}`,
	"{\"a\x01\":1}", "{\"a\xff\":1}", `{"\ud800":1}`, `{"\q":1}`, "{\"a\":1\v}", "{\"a\":\u00a01}", "{\t\"a\"\n:\r1 }",
	// names: all of them equal, or nearly
	`{"a":1,"a":2}`, `{"a":1,"b":2,"a":3}`, `{"":1,"":2}`, `{"a":1,"\u0061":2}`, `{"\u0061":1,"a":2}`, `{"\u0061":1,"\u0061":2}`, `{"\n":1,"\u000a":2}`, `{"\n":1,"\u000A":2}`,
	`{"/":1,"\/":2}`, `{"\"":1,"\u0022":2}`, `{"\\":1,"\u005c":2}`, `{"\b\f\n\r\t":1,"\u0008\u000c\u000a\u000d\u0009":2}`, `{"é":1,"\u00e9":2}`, `{"é":1,"e\u0301":2}`, `{"😀":1,"\ud83d\ude00":2}`,
	`{"a":1,"A":2}`, `{"a":1,"aa":2}`, `{"aa":1,"ab":2,"ba":3,"bb":4}`, `{"\u0061":1,"\u0062":2,"\u0061\u0062":3}`, `{"a":{"a":1,"b":2},"b":{"a":1,"b":2}}`, `{"a":{"a":1},"a":1}`, `{"a":{"b":1,"b":1}}`,
	`{"\u0061":{"\u0062":1,"\u0063":2},"\u0062":{"\u0062":1},"\u0063":3,"\u0062\u0063":{}}`, `{"\u0061":{"\u0062":1},"b":2,"a":3}`, `{"\u0061":{"\u0062":1},"\u0062":2,"b":3}`,
	`[{"a":1},{"a":1}]`, `[{"a":1},{"a":1,"a":1}]`, `{"a":[],"b":[{"c":1,"d":{},"c":2}]}`,
}

// oracleFrames puts each value wherever the scanner goes a way of its own, and in each
// position within the eight bytes that it looks at together.
func oracleFrames() (frames [][]byte) {
	for i, v := range oracleValues {
		for _, format := range []string{
			`%s`, ` %s `, `{"x":%s}`, `{"x":[0,%s ]}`, `{"x":{"y":[{"z":%s}]},"y":0}`,
			`{"jsonrpc":%s,"id":1,"method":"ping"}`, `{"jsonrpc":"2.0","id":%s,"method":"ping"}`, `{"jsonrpc":"2.0","id":1,"method":%s}`,
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":%s}`, `{"jsonrpc":"2.0","id":1,"result":%s}`, `{"jsonrpc":"2.0","id":1,"error":%s}`,
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%s}}`,
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"arguments":%s,"name":"a"}}`,
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":%s,"name":"a"}}`,
			`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"progressToken":%s}}}`,
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`,
			`{%s:1,"y":2}`, `{"params":{%s:1}}`, `{"params":{"_meta":{%s:1}}}`, `{"x":{%s:1}}`,
		} {
			frames = append(frames, fmt.Appendf(nil, format, v))
		}
		for pad := range 9 {
			frames = append(frames, fmt.Appendf(nil, `["%s",%s%s]`, strings.Repeat("x", pad), v, strings.Repeat(" ", i%9)),
				fmt.Appendf(nil, `{"%s":%s`, strings.Repeat("x", pad), v))
		}
	}
	return frames
}

func TestScannerAgreesWithTheDecoder(t *testing.T) {
	for _, frame := range oracleFrames() {
		checkOracle(t, frame, Limits{MaxDepth: 4})
	}
}

// Each byte of a message is replaced by every byte, left out, and preceded by every byte, and the
// message is cut off there.
func TestScannerAgreesWithTheDecoderOnEachByte(t *testing.T) {
	const message = ` {"jsonrpc":"2.0","id":-10.5e+3,"m":[true,false,null,"\u00e9\ud83d\ude00é\n"],` +
		`"params":{"_meta":{"progressToken":"x"},"n\u0061me":{"a":[ 0 , {} ]}}}` + "\n"
	for i := range len(message) {
		for c := range 256 {
			replaced := []byte(message)
			replaced[i] = byte(c)
			checkOracle(t, replaced, Limits{})
		}
		for _, c := range []byte("\"\\{}[]:,-+.0eE \n\x00\x1fxut/\x80\xc3") {
			checkOracle(t, slices.Insert([]byte(message), i, c), Limits{})
		}
		checkOracle(t, []byte(message[:i]), Limits{})
		checkOracle(t, slices.Delete([]byte(message), i, i+1), Limits{})
	}
	checkOracle(t, []byte(message), Limits{})
}

// Random messages, the same ones in each run.
func TestScannerAgreesWithTheDecoderOnRandomMessages(t *testing.T) {
	r := randomJSON{rand.New(rand.NewPCG(1, 2))}
	for range 5_000 {
		frame := r.object(nil, 0, wholeMessage)
		if r.IntN(4) == 0 {
			frame[r.IntN(len(frame))] = "\"\\{}[]:,0e \x00"[r.IntN(12)]
		}
		checkOracle(t, frame, Limits{MaxDepth: 5})
	}
}

// randomJSON appends values that are valid, but for names that are there twice.
type randomJSON struct{ *rand.Rand }

func (r randomJSON) object(b []byte, depth int, f field) []byte {
	names := slices.Sorted(maps.Keys(oracleMembers[f]))
	names = append(names, "a", "b", "é", "a\"b", "\n", "", "name")
	few := r.IntN(3) > 0
	b = append(b, '{')
	for i := range r.IntN(3*maxPairwise) / (1 + 2*depth) {
		if i > 0 {
			b = append(b, ',')
		}
		name := fmt.Sprintf("%d", i)
		if few && i >= len(names) {
			break
		}
		if few || r.IntN(20) == 0 {
			name = names[r.IntN(len(names))]
		}
		b = append(r.text(r.space(b), name), ':')
		b = r.space(r.value(r.space(b), depth+1, oracleMembers[f][name]))
	}
	return append(b, '}')
}

func (r randomJSON) value(b []byte, depth int, f field) []byte {
	kind := r.IntN(6)
	switch {
	case f == fieldParams || f == fieldMeta || kind == 0 && depth < 6:
		return r.object(b, depth, f)
	case kind == 1 && depth < 6:
		b = append(b, '[')
		for i := range r.IntN(4) {
			if i > 0 {
				b = append(b, ',')
			}
			b = r.space(r.value(r.space(b), depth+1, noField))
		}
		return append(b, ']')
	case kind == 2:
		return append(b, []string{"null", "true", "false"}[r.IntN(3)]...)
	case kind == 3:
		return append(b, []string{"0", "-1", "2.5e+7", "10000000", "1E-2"}[r.IntN(5)]...)
	}
	return r.text(b, []string{"2.0", "ping", "tools/call", "notifications/cancelled", "2026-07-28", "", "日本語 text", "a\\b\u0001"}[r.IntN(8)])
}

// text escapes any character, needed or not.
func (r randomJSON) text(b []byte, s string) []byte {
	b = append(b, '"')
	often := r.IntN(3)
	for _, c := range s {
		if c < ' ' || c == '"' || c == '\\' || c < 0x10000 && often == 0 && r.IntN(2) == 0 {
			b = fmt.Appendf(b, []string{`\u%04x`, `\u%04X`}[r.IntN(2)], c)
		} else {
			b = utf8.AppendRune(b, c)
		}
	}
	return append(b, '"')
}

func (r randomJSON) space(b []byte) []byte {
	if r.IntN(8) == 0 {
		b = append(b, []string{" ", "\n", "\t", "\r\n", "         "}[r.IntN(5)]...)
	}
	return b
}

// jsontext allows 10 000 levels of nesting. A larger limit counts as that.
func TestScannerDepth(t *testing.T) {
	for levels := maxNesting - 1; levels <= maxNesting+1; levels++ {
		for _, innermost := range []string{``, `1`, `[]`, `{}`} {
			objects := strings.Repeat(`{"a":`, levels) + innermost + strings.Repeat(`}`, levels)
			arrays := `{"a":` + strings.Repeat(`[`, levels-1) + innermost + strings.Repeat(`]`, levels-1) + `}`
			for _, frame := range []string{objects, arrays} {
				checkOracle(t, []byte(frame), Limits{MaxDepth: 2 * maxNesting})
			}
		}
	}
}

// special reports whether a byte ends a run of plain text.
func special(c byte, notASCII uint64) bool {
	return c < ' ' || c == '"' || c == '\\' || c >= 0x80 && notASCII != 0
}

// checkPlain compares plain with a loop over all bytes.
func checkPlain(t *testing.T, text []byte, start int, notASCII uint64) {
	t.Helper()
	want := len(text)
	if end := slices.IndexFunc(text[start:], func(c byte) bool { return special(c, notASCII) }); end >= 0 {
		want = start + end
	}
	if got := plain(text, start, notASCII); got != want {
		t.Fatalf("%q from %d: %d, want %d", text, start, got, want)
	}
}

// Each pair of bytes, at a place in each of the loops of plain: what is above a special byte is marked wrongly.
func TestPlainTextEndsAtEachByte(t *testing.T) {
	text := bytes.Repeat([]byte{'x'}, longRun+2*32+16)
	for _, notASCII := range []uint64{highBits, 0} {
		for c := range 256 {
			for above := range 256 {
				for _, at := range []int{0, 3, 7, longRun + 5, longRun + 32 + 31, len(text) - 12, len(text) - 2} {
					text[at], text[at+1] = byte(c), byte(above)
					checkPlain(t, text, 0, notASCII)
					text[at], text[at+1] = 'x', 'x'
				}
			}
		}
	}
}

func TestPlainTextEndsAtEachPlace(t *testing.T) {
	for _, notASCII := range []uint64{highBits, 0} {
		for length := range longRun + 2*32 + 16 {
			text := bytes.Repeat([]byte{'x'}, length)
			for start := range min(8, length+1) {
				checkPlain(t, text, start, notASCII)
				for at := start; at < length; at++ {
					for _, c := range []byte{0x00, 0x1f, ' ', '!', '"', '#', '\\', ']', 0x7f, 0x80, 0xff} {
						text[at] = c
						checkPlain(t, text, start, notASCII)
					}
					text[at] = 'x'
				}
			}
		}
	}
}

// A scanner in the pool has no reference to a frame, which could be megabytes, and does not keep
// the memory that a large frame took.
func TestReleasedScannerKeepsNoFrame(t *testing.T) {
	s := new(scanner)
	var frame bytes.Buffer
	for i := range maxIdleNames + 1 {
		fmt.Fprintf(&frame, `%c"\u0061%d":1`, "{,"[min(i, 1)], i)
	}
	for _, tt := range []struct {
		frame string
		kept  bool
	}{
		{tracedCall, true}, {tracedCall[:300], true}, {frame.String() + "}", false}, {frame.String(), false},
	} {
		s.begin([]byte(tt.frame), 64)
		s.message()
		s.reset()
		if s.frame != nil || s.names.frame != nil || s.found != [fieldCount]span{} || s.top != 0 || s.depth != 0 ||
			len(s.names.names) != 0 || len(s.names.unescaped) != 0 {
			t.Errorf("%.20s: left over: %+v", tt.frame, s)
		}
		if kept := s.names.names != nil; kept != tt.kept {
			t.Errorf("%.20s: kept room for %d names", tt.frame, cap(s.names.names))
		}
	}
}
