package attack

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// maxFrame is the size of the largest message by default, in bytes.
const maxFrame = 4 << 20

// A JSON bomb has a bounded size and wants an unbounded effort. Each is refused, or served as what
// it is, and costs other callers nothing.
func TestJSONBombsAreDefused(t *testing.T) {
	t.Parallel()
	s := attacked(t)
	undisturbed := s.others(t)
	c := s.caller(t, attacker, "")
	in := func(arguments string) string { return call{tool: "echo", arguments: arguments}.frame(1, true) }
	repeat := strings.Repeat
	for name, frame := range map[string]string{
		"open arrays":                    repeat("[", maxFrame),
		"open objects":                   repeat(`{"a":`, maxFrame/5),
		"nested arrays in arguments":     in(`{"text":` + repeat("[", 100_000) + repeat("]", 100_000) + `}`),
		"nested objects in arguments":    in(repeat(`{"a":`, 100_000) + "1" + repeat("}", 100_000)),
		"nesting in _meta":               strings.Replace(in("{}"), `"_meta":{`, `"_meta":{"x/y":`+repeat("[", 5000)+repeat("]", 5000)+",", 1),
		"a name twice":                   in(`{"text":"a","text":"b"}`),
		"a name twice, escaped":          in(`{"text":"a","te\u0078t":"b"}`),
		"a name twice, far apart":        in(`{"text":"a",` + manyNames(20_000) + `,"text":"b"}`),
		"a lone surrogate":               in(`{"text":"\ud800"}`),
		"surrogates in the wrong order":  in(`{"text":"\udc00\ud800"}`),
		"a lone surrogate in a name":     in(`{"text":"a","\udfff":1}`),
		"half a surrogate, then UTF-8":   in("{\"text\":\"\\ud83d\U0001F600\"}"),
		"a surrogate as UTF-8":           in("{\"text\":\"\xed\xa0\x80\"}"),
		"UTF-8 that is too long":         in("{\"text\":\"\xc0\xaf\"}"),
		"UTF-16":                         "\xff\xfe{\x00}\x00",
		"a byte order mark":              "\xef\xbb\xbf" + in(`{"text":"a"}`),
		"a NUL":                          in("{\"text\":\"\x00\"}"),
		"a number that is too large":     in(`{"text":1e999999999}`),
		"a number of a million digits":   in(`{"text":` + repeat("9", 1_000_000) + `}`),
		"an exponent of a million":       in(`{"text":1e` + repeat("0", 1_000_000) + `1}`),
		"NaN":                            in(`{"text":NaN}`),
		"a number with a leading zero":   in(`{"text":01}`),
		"a comment":                      in(`{"text":"a"/**/}`),
		"a comma too many":               in(`{"text":"a",}`),
		"two messages":                   in(`{"text":"a"}`) + in(`{"text":"b"}`),
		"one byte too many":              in(`{"text":"` + repeat("x", maxFrame) + `"}`),
		"a name of a prototype":          in(`{"__proto__":{"text":"x"}}`),
		"unknown members":                in(`{"text":"a",` + manyNames(1000) + `}`),
		"a method of a megabyte":         `{"jsonrpc":"2.0","id":1,"method":"` + repeat("m", 1<<20) + `"}`,
		"a tool of a megabyte":           call{tool: repeat("t", 1<<20)}.frame(1, false),
		"a version of a megabyte":        strings.Replace(in(`{"text":"a"}`), modernVersion, repeat("9", 1<<20), 1),
		"a progress token of a megabyte": strings.Replace(in(`{"text":"a"}`), `"_meta":{`, `"_meta":{"progressToken":"`+repeat("p", 1<<20)+`",`, 1),
	} {
		r := c.must(t, http.MethodPost, call{tool: "echo"}.header(), frame)
		served := r.Result != nil && !r.Result.IsError
		if served && name != "a progress token of a megabyte" || r.status/100 == 5 || r.status/100 == 4 && r.Error == nil {
			t.Errorf("%s: %d %.300s", name, r.status, r.body)
		}
		if len(r.body) > 16<<10 && !served {
			t.Errorf("%s: the refusal has %d bytes: %.300s", name, len(r.body), r.body)
		}
	}
	undisturbed()
}

// manyNames is n members with names of their own.
func manyNames(n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"m%d":0`, i)
	}
	return b.String()
}

// An id comes back exactly as it was sent, or is refused.
func TestIDsComeBackExactly(t *testing.T) {
	t.Parallel()
	s := attacked(t)
	undisturbed := s.others(t)
	c := s.caller(t, attacker, "")
	echo := call{tool: "echo", arguments: `{"text":"hello"}`}
	for _, id := range []string{
		`0`, `-1`, `9007199254740993`, `-9223372036854775808`, `9223372036854775807`, `""`, `"1"`, `"null"`, `"__proto__"`,
		`"\u0000\n\u001b[31m"`, `"<script>alert(1)</script>"`, `"%s%n%x"`, `"../../etc/passwd"`, `"😀"`,
		`1.5`, `1e400`, `null`, `true`, `{}`, `[]`, `[1]`, `18446744073709551616`, `"` + strings.Repeat("x", 1<<20) + `"`,
	} {
		r := c.must(t, http.MethodPost, echo.header(), echo.frame(json.RawMessage(id), true))
		switch {
		case r.Result != nil && !sameJSON(string(r.ID), id):
			t.Errorf("the id %.40s came back as %.40s", id, r.ID)
		case r.Result == nil && (r.status != http.StatusBadRequest || len(r.body) > 16<<10):
			t.Errorf("the id %.40s: %d %.200s", id, r.status, r.body)
		}
	}
	undisturbed()
}

func sameJSON(a, b string) bool {
	var x, y any
	decode := func(text string, v *any) bool {
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		return d.Decode(v) == nil
	}
	return decode(a, &x) && decode(b, &y) && fmt.Sprintf("%T %v", x, x) == fmt.Sprintf("%T %v", y, y)
}

// One id may be used by many callers at once, and twice in one session it is refused; the first
// request goes on.
func TestAnIDInUseIsRefused(t *testing.T) {
	t.Parallel()
	s := attacked(t)
	undisturbed := s.others(t)
	c := s.caller(t, attacker, "")
	c.initialize(t)
	sleep := call{tool: "sleep", arguments: `{"ms":600000}`}
	first := c.begin(t, c.sessionHeader(), sleep.frame(7, false))
	s.awaitInFlight(t, "sleep", 3)
	for _, id := range []string{"7", "7.0", "7e0", "70e-1"} {
		r := c.must(t, http.MethodPost, c.sessionHeader(), call{tool: "echo", arguments: `{"text":"x"}`}.frame(json.RawMessage(id), false))
		if r.Result != nil || r.Error == nil {
			t.Errorf("the id %s of a running request was accepted: %s", id, r.body)
		}
	}
	if !first.unanswered() {
		t.Error("the first request has ended")
	}
	c.notify(t, `"notifications/cancelled","params":{"requestId":7}`)
	if r := first.wait(t); r.code() != codeCancelled {
		t.Errorf("the first request: %s", r.body)
	}
	undisturbed()
}

// Batches are bounded, do not nest, and exist only in the revision that has them.
func TestBatchesAreBounded(t *testing.T) {
	t.Parallel()
	s := attacked(t)
	undisturbed := s.others(t)
	c := s.caller(t, attacker, "")
	c.initialize(t) // 2025-11-25, which has no batches
	ping := `{"jsonrpc":"2.0","id":%d,"method":"ping"}`
	batch := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(ping, i))
		}
		return "[" + strings.Join(all, ",") + "]"
	}
	for name, frame := range map[string]string{
		"empty": "[]", "of one": batch(1), "of many": batch(10_000), "of batches": "[[" + batch(1) + "]]", "of numbers": "[1,2,3]",
		"not closed": strings.TrimSuffix(batch(2), "]"),
	} {
		for era, header := range map[string]http.Header{"modern": call{method: "ping"}.header(), "legacy": c.sessionHeader()} {
			if r := c.must(t, http.MethodPost, header, frame); r.status != http.StatusBadRequest || r.Result != nil {
				t.Errorf("a batch %s, %s: %d %.200s", name, era, r.status, r.body)
			}
		}
	}

	old := s.caller(t, attacker, "")
	old.initializeOldest(t)
	before := s.admitted(t)
	for name, frame := range map[string]string{
		"empty": "[]", "of 101": batch(101), "of 10,000": batch(10_000), "of batches": "[" + batch(3) + "]",
	} {
		r := old.must(t, http.MethodPost, old.sessionHeader(), frame)
		if r.Result != nil || r.status/100 == 5 || r.status == http.StatusAccepted {
			t.Errorf("a batch %s: %d %.200s", name, r.status, r.body)
		}
	}
	if after := s.admitted(t); after != before {
		t.Errorf("%d requests of refused batches were admitted", after-before)
	}
	twice := "[" + fmt.Sprintf(ping, 1) + "," + fmt.Sprintf(ping, 1) + "]"
	if r := old.must(t, http.MethodPost, old.sessionHeader(), twice); strings.Count(r.body, `"result"`) > 1 {
		t.Errorf("one id twice in a batch: %s", r.body)
	}
	undisturbed()
}
