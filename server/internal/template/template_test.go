package template_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/yosida95/uritemplate/v3"

	"github.com/vitrine-mcp/vitrine/server/internal/template"
)

type vars = map[string]string

func TestMatch(t *testing.T) {
	for _, tt := range []struct {
		template, uri string
		want          vars // nil is no match
	}{
		{"x://y", "x://y", vars{}},
		{"x://y", "x://yy", nil},
		{"x://y.z", "x://yaz", nil},
		{"test://template/{id}/data", "test://template/123/data", vars{"id": "123"}},
		{"test://template/{id}/data", "test://template//data", vars{"id": ""}},
		{"test://template/{id}/data", "test://template/1/2/data", nil},
		{"test://template/{id}/data", "test://template/1%2F2/data", vars{"id": "1/2"}},
		{"test://template/{id}/data", "test://template/123/data\n", nil},
		{"test://template/{id}/data", "Test://template/123/data", nil},
		{"test://template/{id}/data", "xtest://template/123/data", nil},
		{"x:{a}", "x:%zz", nil},
		{"x:{a}", "x:%4", nil},
		{"x:{a}", "x:ü", nil},
		{"x:{a}", "x:%C3%bc+~", nil},
		{"x:{a}", "x:%C3%bc~", vars{"a": "ü~"}},
		{"x:ü{a}", "x:ü1", vars{"a": "1"}},
		{"x:ü{a}", "x:%C3%BC1", vars{"a": "1"}},
		{"x:ü{a}", "x:%c3%bc1", vars{"a": "1"}},
		{"x:ü{a}", "x:%C31", nil},
		{"x:üü{a}", "x:ü%C3%BC1", vars{"a": "1"}},
		{"test://café/{id}", "test://caf%C3%A9/7", vars{"id": "7"}},
		{"test://café/{id}", "test://caf%C3%A9/%C3%A9", vars{"id": "é"}},
		{"test://café/{id}", "test://cafe/7", nil},
		{"x:{a}/ü", "x:1/%C3%BC", vars{"a": "1"}},
		{"x:{a}/ü", "x:1/ü", vars{"a": "1"}},
		{"x:{a}/ü", "x:1/%C3%BD", nil},
		{"x:{a}ü/{b}", "x:1%C3%BC/2", vars{"a": "1", "b": "2"}},
		{"x:{a}ü/{b}", "x:1ü/2", vars{"a": "1", "b": "2"}},
		{"x://café", "x://caf%C3%A9", vars{}},
		{"x://café", "x://café", vars{}},
		{"x://%C3%A9{a}", "x://%C3%A91", vars{"a": "1"}},
		{"x:{a}{b}", "x:12", vars{"a": "12", "b": ""}},
		{"x:{a:1}{b}", "x:12", vars{"a": "1", "b": "2"}},
		{"x:{a:3}", "x:%C3%bcab", vars{"a": "üab"}},
		{"x:{a:3}", "x:%C3%bcabc", nil},
		{"x:{a:3}", "x:%E2%82%AC%f0%9F%98%80z", vars{"a": "€😀z"}},
		{"x:{a}", "x:%ff", nil},
		{"x:{a}", "x:%C3", nil},
		{"x:{a}", "x:%00", vars{"a": "\x00"}},
		{"x:{a:2}", "x:abc", nil},
		{"x:{a,b}", "x:1,2", vars{"a": "1", "b": "2"}},
		{"x:{a,b}", "x:1", vars{"a": "1"}},
		{"x:{a,b}", "x:1,2,3", nil},
		{"x:{a}", "x:1,2%2C3", vars{"a": "1,2,3"}},
		{"x:{a*}", "x:1,2", vars{"a": "1,2"}},

		{"file:///{+path}", "file:///a/b%20c/../d?e#f", vars{"path": "a/b c/../d?e#f"}},
		{"file:///{+path}", "file:///a b", nil},
		{"x:{#f}", "x:#a/b", vars{"f": "a/b"}},
		{"x:{#f}", "x:", vars{}},
		{"x:{#f}", "x:a", nil},
		{"x:y{.ext}", "x:y.tar.gz", vars{"ext": "tar.gz"}},
		{"x:{/a,b}", "x:/1/2", vars{"a": "1", "b": "2"}},
		{"x:{/a,b}", "x:/1,2/3", vars{"a": "1,2", "b": "3"}},
		{"x:{/a,b}", "x:/", vars{"a": ""}},
		{"x:{/a}", "x:", vars{}},
		{"x:{/path*}", "x:/a/b/c%2Fd", vars{"path": "a/b/c/d"}},
		{"x:{/path*}/z", "x:/a/b/z", vars{"path": "a/b"}},

		{"x:y{?a,b}", "x:y", vars{}},
		{"x:y{?a,b}", "x:y?a=1&b=2", vars{"a": "1", "b": "2"}},
		{"x:y{?a,b}", "x:y?b=2", vars{"b": "2"}},
		{"x:y{?a,b}", "x:y?a=", vars{"a": ""}},
		{"x:y{?a,b}", "x:y?b=2&a=1", nil},
		{"x:y{?a,b}", "x:y?a=1b=2", nil},
		{"x:y{?a,b}", "x:y&b=2", nil},
		{"x:y{?a,b}", "x:y?", nil},
		{"x:y{?a,b}", "x:y?a=1&c=2", nil},
		{"x:y{?a}", "x:y?a=1,2", vars{"a": "1,2"}},
		{"x:y{?a*,b}", "x:y?a=1&a=2%2C3&a=&b=4", vars{"a": "1,2,3,", "b": "4"}},
		{"x:y?z=0{&a}", "x:y?z=0&a=1", vars{"a": "1"}},
		{"x:y{;a,b}", "x:y;a=1;b=2", vars{"a": "1", "b": "2"}},
		{"x:y{;a,b}", "x:y;a;b=2", vars{"a": "", "b": "2"}},
		{"x:y{;a,b}", "x:y;ab", nil},
		{"x:y{;a*}", "x:y;a=1;a;a=2", vars{"a": "1,,2"}},
		{"x:{a.b}", "x:1", vars{"a.b": "1"}},
		{"x:{?a.b}", "x:?acb=1", nil},
	} {
		t.Run(tt.template+" "+tt.uri, func(t *testing.T) {
			tmpl, err := template.Parse(tt.template)
			require.NoError(t, err)
			got, ok := tmpl.Match(tt.uri)
			require.Equal(t, tt.want != nil, ok)
			require.Equal(t, tt.want, got)
			require.Equal(t, ok, tmpl.Matches(tt.uri))
		})
	}
}

func TestParse(t *testing.T) {
	tmpl, err := template.Parse("x:{a}/{+b*}{?c,d:3}")
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b", "c", "d"}, tmpl.Variables())
	require.True(t, tmpl.Has("d"))
	require.False(t, tmpl.Has("d:3"))
	for bad, want := range map[string]string{
		"x:{":                            "incomplete expression",
		"x:}":                            "unacceptable character",
		"x:{}":                           "unacceptable variable name",
		"x:{?}":                          "unacceptable variable name",
		"x:{a b}":                        "unacceptable variable name",
		"x:{=a}":                         "unimplemented operator",
		"x:{a:0}":                        "max-length",
		"x:{a*:3}":                       "unrecognized value modifier",
		"x:%z{a}":                        "pct-encode",
		"x: {a}":                         "unacceptable character",
		"x:\xff{a}":                      "invalid UTF-8",
		"x:{a}/{a}":                      `variable "a" occurs twice`,
		"x:{a:1}/{a}":                    `variable "a" occurs twice`,
		"x:{a:101}":                      `the prefix of variable "a" is longer than 100`,
		"x:" + strings.Repeat("a", 4096): "longer than 4096 bytes",
		"x:{?" + strings.Join(many(33), ",") + "}":                 "more than 32 variables",
		"x:{" + strings.Join(many(32), "}{") + "}{" + "b32" + "x}": "more than 32 variables",
	} {
		_, err := template.Parse(bad)
		require.ErrorContains(t, err, want, bad)
	}
	_, err = template.Parse("x:{?" + strings.Join(many(32), ",") + "}")
	require.NoError(t, err)
}

func many(n int) (names []string) {
	for i := range n {
		names = append(names, "b"+string(rune('a'+i%26))+string(rune('a'+i/26)))
	}
	return names
}

func TestLength(t *testing.T) {
	tmpl, err := template.Parse("x:{+a}")
	require.NoError(t, err)
	fits := "x:" + strings.Repeat("a", template.MaxLength-2)
	require.True(t, tmpl.Matches(fits))
	require.False(t, tmpl.Matches(fits+"a"))
	_, ok := tmpl.Match(fits + "a")
	require.False(t, ok)
}

// The matcher finds the values with which the library has expanded a template.
func TestExpansionsMatch(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, raw := range []string{
		"x:{a}", "x:{a}/{b}", "x:{a,b,c}", "x:{+a}", "x:{#a}", "x:y{.a}/{b}", "x:{/a,b}/z", "x:{;a,b,c}",
		"x:{?a,b,c}", "x:?z{&a,b}", "x:{/a}{?b}{#c}", "x:{?a*,b}", "x:{;a*}",
	} {
		tmpl, err := template.Parse(raw)
		require.NoError(t, err)
		library := uritemplate.MustNew(raw)
		for range 300 {
			want, values := vars{}, uritemplate.Values{}
			for _, name := range tmpl.Variables() {
				// A bare dot would end a label, and a value that is left out shifts those
				// behind it unless they have names.
				if strings.ContainsAny(raw, "?&;") && !strings.Contains(raw, "/") && random.IntN(3) == 0 {
					continue
				}
				want[name] = text(random)
				values.Set(name, uritemplate.String(want[name]))
			}
			if strings.Contains(raw, ".a") {
				want["a"] = strings.ReplaceAll(want["a"], "/", "")
				values.Set("a", uritemplate.String(want["a"]))
			}
			uri, err := library.Expand(values)
			require.NoError(t, err)
			got, ok := tmpl.Match(uri)
			require.True(t, ok, "%s %s", raw, uri)
			require.Equal(t, want, got, "%s %s", raw, uri)
		}
	}
}

// text returns a text that is not empty, with characters that must be escaped.
func text(random *rand.Rand) string {
	const alphabet = "abz09-._~ /%,;=&?#" // the library does not escape others as UTF-8
	s := make([]byte, 1+random.IntN(6))
	for i := range s {
		s[i] = alphabet[random.IntN(len(alphabet))]
	}
	return string(s)
}

func FuzzMatch(f *testing.F) {
	f.Add("test://template/{id}/data{?a,b*}", "test://template/1/data?a=2")
	f.Add("x:{+a}{;b:3}{/c*}{.d}{#e}", "x:/a;b=1/2/3.4#5")
	f.Fuzz(func(t *testing.T, raw, uri string) {
		tmpl, err := template.Parse(raw)
		if err != nil {
			return
		}
		got, ok := tmpl.Match(uri)
		if ok != tmpl.Matches(uri) {
			t.Fatal("Match and Matches disagree")
		}
		for name := range maps.Keys(got) {
			if !slices.Contains(tmpl.Variables(), name) {
				t.Fatalf("%q is no variable", name)
			}
		}
	})
}

func BenchmarkMatch(b *testing.B) {
	for name, c := range map[string][2]string{
		"short":  {"test://template/{id}/data", "test://template/123/data"},
		"long":   {"file:///{+path}", "file:///" + strings.Repeat("a/", 1000)},
		"prefix": {"file:///{a:100}", "file:///" + strings.Repeat("a", 100) + "/"},
		"other":  {"file:///{+path}", "test://template/123/data"},
	} {
		b.Run(name, func(b *testing.B) {
			tmpl, err := template.Parse(c[0])
			require.NoError(b, err)
			b.ReportAllocs()
			for b.Loop() {
				if tmpl.Matches(c[1]) {
					tmpl.Match(c[1])
				}
			}
		})
	}
}
