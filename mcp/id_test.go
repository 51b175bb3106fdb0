package mcp_test

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/mcp"
)

func TestParseID(t *testing.T) {
	digits64 := strings.Repeat("9", 64)
	for _, tt := range []struct {
		raw, unquoted string
		key           string // "" for a bad id
		text          string // of String
	}{
		{"0", "", "0", "0"},
		{"-0", "", "0", "0"},
		{"-0.0e5", "", "0", "0"},
		{"1", "", "1", "1"},
		{"1.0", "", "1", "1"},
		{"1e0", "", "1", "1"},
		{"1E+0", "", "1", "1"},
		{"10e-1", "", "1", "1"},
		{"0.001e3", "", "1", "1"},
		{"1e2", "", "100", "100"},
		{"-1.50e1", "", "-15", "-15"},
		{digits64, "", digits64, digits64},
		{"-" + digits64, "", "-" + digits64, "-" + digits64},
		{"1e63", "", "1" + strings.Repeat("0", 63), "1" + strings.Repeat("0", 63)},
		{`""`, "", `""`, ""},
		{`"1"`, "1", `"1"`, "1"},
		{`"\u0031"`, "1", `"1"`, "1"},
		{`"a\/b"`, "a/b", `"a/b"`, "a/b"},
		{`"\"\\\n"`, "\"\\\n", `"\"\\\u000a"`, "\"\\\n"},
		{`"é\u2028"`, "é\u2028", "\"é\u2028\"", "é\u2028"},

		{"1.5", "", "", ""},
		{"1e-1", "", "", ""},
		{"1e64", "", "", ""},
		{"1e400", "", "", ""},
		{"1e2147483647", "", "", ""},
		{"1e-2147483648", "", "", ""},
		{"0.1e-2147483648", "", "", ""},
		{"1e999999999999", "", "", ""},
		{"9" + digits64, "", "", ""},
		{"null", "", "", ""},
		{"true", "", "", ""},
		{"[]", "", "", ""},
		{"{}", "", "", ""},
		{"", "", "", ""},
	} {
		id, err := mcp.ParseID(tt.raw, tt.unquoted)
		if tt.key == "" {
			if !errors.Is(err, mcp.ErrBadID) || !id.IsZero() {
				t.Errorf("ParseID(%q) = %q, %v, want ErrBadID", tt.raw, id.Raw(), err)
			}
			continue
		}
		if err != nil || id.Raw() != tt.raw || id.Key() != tt.key || id.String() != tt.text || id.IsZero() {
			t.Errorf("ParseID(%q) = raw %q key %q text %q, %v; want key %q text %q",
				tt.raw, id.Raw(), id.Key(), id.String(), err, tt.key, tt.text)
		}
	}
}

func TestIDConstructors(t *testing.T) {
	if id := mcp.IntID(-7); id.Raw() != "-7" || id.Key() != "-7" || id.IsZero() {
		t.Errorf("IntID(-7) = %q %q", id.Raw(), id.Key())
	}
	for _, s := range []string{"", "1", "a\"\\\n\x00\x7f", "é\u2028"} {
		id := mcp.StringID(s)
		raw, err := jsontext.AppendUnquote(nil, id.Raw())
		if err != nil || string(raw) != s || id.String() != s {
			t.Errorf("StringID(%q) = raw %s text %q, %v", s, id.Raw(), id.String(), err)
		}
	}
	if mcp.IntID(1).Key() == mcp.StringID("1").Key() {
		t.Error(`1 and "1" have one key`)
	}
	if raw := mcp.StringID("a\xff").Raw(); !utf8.ValidString(raw) || !jsontext.Value(raw).IsValid() {
		t.Errorf("StringID of invalid UTF-8 is not JSON: %q", raw)
	}
}

func TestIDMarshal(t *testing.T) {
	one, _ := mcp.ParseID("1.0", "")
	got, err := json.Marshal([]mcp.ID{one, mcp.StringID("1"), {}})
	if want := `[1.0,"1",null]`; err != nil || string(got) != want {
		t.Errorf("Marshal = %s, %v, want %s", got, err, want)
	}
}
