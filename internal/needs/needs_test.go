package needs_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/needs"
)

// A fakeTB records how a test ended.
type fakeTB struct {
	testing.TB
	ended, text string
}

func (f *fakeTB) Helper() {}

func (f *fakeTB) end(how, format string, args []any) {
	f.ended, f.text = how, fmt.Sprintf(format, args...)
	runtime.Goexit() // as the real ones do
}

func (f *fakeTB) Skipf(format string, args ...any)  { f.end("skipped", format, args) }
func (f *fakeTB) Fatalf(format string, args ...any) { f.end("failed", format, args) }

// run runs a test function as the testing package does.
func run(test func(testing.TB)) *fakeTB {
	tb := &fakeTB{ended: "went on"}
	done := make(chan struct{})
	go func() {
		defer close(done)
		test(tb)
	}()
	<-done
	return tb
}

func TestNeeds(t *testing.T) {
	missing := func(tb testing.TB) { needs.Tool(tb, "e2e/thing", "go", "no-such-program", "nor-this") }
	present := func(tb testing.TB) { needs.Tool(tb, "e2e/thing", "go") }
	other := func(tb testing.TB) { needs.Skip(tb, "e2e/npm", "packages\tnot\ninstalled") }
	const line = "skipped\te2e/thing\tno no-such-program, no nor-this in PATH\n"

	for _, c := range []struct {
		name    string
		require string
		test    func(testing.TB)
		ended   string
		text    string
		skips   string
	}{
		{"present", "", present, "went on", "", ""},
		{"present and required", "all", present, "went on", "", ""},
		{"missing", "", missing, "skipped", "e2e/thing: no no-such-program, no nor-this in PATH (make tools installs what is missing)", line},
		{"missing and required", "all", missing, "failed", "e2e/thing: no no-such-program, no nor-this in PATH, and VITRINE_REQUIRE=all allows no skips (make tools installs what is missing)", ""},
		{"another need", "", other, "skipped", "e2e/npm: packages\tnot\ninstalled (make tools installs what is missing)", "skipped\te2e/npm\tpackages not installed\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "skips")
			t.Setenv("VITRINE_REQUIRE", c.require)
			t.Setenv("VITRINE_SKIPS", file)
			tb := run(c.test)
			if tb.ended != c.ended || tb.text != c.text {
				t.Errorf("the test %s: %q, want %s: %q", tb.ended, tb.text, c.ended, c.text)
			}
			if got, _ := os.ReadFile(file); string(got) != c.skips {
				t.Errorf("recorded %q, want %q", got, c.skips)
			}
		})
	}
}

func TestSkipsAreAppended(t *testing.T) {
	file := filepath.Join(t.TempDir(), "skips")
	t.Setenv("VITRINE_REQUIRE", "")
	t.Setenv("VITRINE_SKIPS", file)
	for _, suite := range []string{"a", "b"} {
		run(func(tb testing.TB) { needs.Skip(tb, suite, "why") })
	}
	if got, _ := os.ReadFile(file); string(got) != "skipped\ta\twhy\nskipped\tb\twhy\n" {
		t.Errorf("recorded %q", got)
	}
}

// -short leaves long suites out and records that, unless nothing may be left out.
func TestShortLeavesLongSuitesOut(t *testing.T) {
	short := flag.Lookup("test.short")
	was := short.Value.String()
	t.Cleanup(func() { require.NoError(t, short.Value.Set(was)) })
	for _, c := range []struct {
		name, short, required string
		ended, skips          string
	}{
		{"long form", "false", "", "went on", ""},
		{"long form, nothing may be skipped", "false", "all", "went on", ""},
		{"short form", "true", "", "skipped", "left out\te2e/thing\n"},
		{"short form, nothing may be skipped", "true", "all", "failed", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "skips")
			t.Setenv("VITRINE_REQUIRE", c.required)
			t.Setenv("VITRINE_SKIPS", file)
			require.NoError(t, short.Value.Set(c.short))
			tb := run(func(tb testing.TB) { needs.Long(tb, "e2e/thing") })
			require.Equal(t, c.ended, tb.ended, tb.text)
			got, err := os.ReadFile(file)
			if c.skips != "" {
				require.NoError(t, err)
			}
			require.Equal(t, c.skips, string(got))
		})
	}
}

// A skip that cannot be recorded would go unnoticed.
func TestSkipThatCannotBeRecordedFails(t *testing.T) {
	t.Setenv("VITRINE_REQUIRE", "")
	t.Setenv("VITRINE_SKIPS", t.TempDir())
	if tb := run(func(tb testing.TB) { needs.Skip(tb, "a", "why") }); tb.ended != "failed" {
		t.Errorf("the test %s: %q", tb.ended, tb.text)
	}
	t.Setenv("VITRINE_SKIPS", "")
	if tb := run(func(tb testing.TB) { needs.Skip(tb, "a", "why") }); tb.ended != "skipped" {
		t.Errorf("without a file to record in, the test %s: %q", tb.ended, tb.text)
	}
}
