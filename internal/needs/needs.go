// Package needs lets a test declare what it needs: a program or something else that the
// machine may lack ([Tool], [Skip]), or the time for a long suite ([Long], [Short]). It
// makes sure that no skipped test goes unnoticed.
//
// What happens depends on two environment variables:
//
//   - On a developer's machine a missing need skips the test.
//   - Under VITRINE_REQUIRE=all, as in continuous integration, it fails the test.
//   - If VITRINE_SKIPS names a file, each skip is appended to it as one line:
//     "skipped", tab, suite, tab, reason; or "left out", tab, suite. make test and
//     make test-all set it and print the list at their end, because go test does not
//     report skipped tests.
//
// The package is for tests only. Nested modules such as e2e may import it too.
package needs

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Tool declares that a test needs the named programs in PATH. The suite is what the
// summary of make test-all calls the tests that belong together, for example
// "e2e/prometheus". Call it first in a test, from the test's own goroutine.
func Tool(tb testing.TB, suite string, names ...string) {
	tb.Helper()
	var missing []string
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		Skip(tb, suite, "no "+strings.Join(missing, ", no ")+" in PATH")
	}
}

// Skip ends a test whose need is not met, for a reason other than a missing program.
// It skips the test, or fails it under VITRINE_REQUIRE=all; either way it does not
// return. The reason is one short phrase, for example "npm packages not installed".
func Skip(tb testing.TB, suite, why string) {
	tb.Helper()
	if os.Getenv("VITRINE_REQUIRE") == "all" {
		tb.Fatalf("%s: %s, and VITRINE_REQUIRE=all allows no skips (make tools installs what is missing)", suite, why)
	}
	if name := os.Getenv("VITRINE_SKIPS"); name != "" {
		if err := record(name, "skipped", suite, why); err != nil {
			tb.Fatalf("%s: %s, and the skip cannot be recorded: %v", suite, why, err)
		}
	}
	tb.Skipf("%s: %s (make tools installs what is missing)", suite, why)
}

// Long declares that a test belongs to a long suite. go test -short, which make test
// uses, leaves it out: the test is skipped, or fails under VITRINE_REQUIRE=all. Without
// -short Long does nothing. The suite is as for [Tool]. Call it first in a test, from the
// test's own goroutine.
func Long(tb testing.TB, suite string) {
	tb.Helper()
	if Short(tb, suite) {
		tb.Skipf("%s: -short leaves it out (make test-all runs it)", suite)
	}
}

// Short reports whether go test -short leaves out a part of a test, such as most of many
// random cases, and records that it does. The suite names that part. Under
// VITRINE_REQUIRE=all Short fails the test instead. Call it from the test's own goroutine.
func Short(tb testing.TB, suite string) bool {
	tb.Helper()
	if !testing.Short() {
		return false
	}
	if os.Getenv("VITRINE_REQUIRE") == "all" {
		tb.Fatalf("%s: -short leaves it out, and VITRINE_REQUIRE=all allows no skips (make test-all runs it)", suite)
	}
	if name := os.Getenv("VITRINE_SKIPS"); name != "" {
		if err := record(name, "left out", suite); err != nil {
			tb.Fatalf("%s: -short leaves it out, and that cannot be recorded: %v", suite, err)
		}
	}
	return true
}

// record appends one line to the file of skips. Test binaries of several packages do
// so at the same time, so it is one write to a file opened for appending.
func record(file string, fields ...string) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	for i := range fields {
		fields[i] = oneLine(fields[i])
	}
	_, err = fmt.Fprintln(f, strings.Join(fields, "\t"))
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}

// oneLine keeps a text within its field of its line.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
