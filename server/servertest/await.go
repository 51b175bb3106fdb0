package servertest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// patience is how long assertions wait.
const patience = 10 * time.Second

// await calls found until it returns true or the patience is over. Its first pauses are very
// short: in a bubble of synctest they are enough for everything that takes no time.
func await(found func() bool) bool {
	begin := time.Now()
	for pause := time.Nanosecond; !found(); pause = min(2*pause, 50*time.Millisecond) {
		if time.Since(begin) > patience {
			return false
		}
		time.Sleep(pause)
	}
	return true
}

// first waits until all returns a wanted thing. It returns the first one, and reports whether
// there was one.
func first[T any](all func() []T, wanted func(T) bool) (found T, ok bool) {
	ok = await(func() bool {
		now := all()
		i := slices.IndexFunc(now, wanted)
		if i >= 0 {
			found = now[i]
		}
		return i >= 0
	})
	return found, ok
}

// hasAttrs reports whether something has attributes, given as keys and values.
func hasAttrs(of interface{ Attr(key string) string }, attrs []string) bool {
	for i := 0; i+1 < len(attrs); i += 2 {
		if of.Attr(attrs[i]) != attrs[i+1] {
			return false
		}
	}
	return true
}

// pairs ends the test unless a list has a value for each name.
func pairs(tb testing.TB, list []string) {
	tb.Helper()
	if len(list)%2 != 0 {
		tb.Fatalf("servertest: %q must be names, each with its value", list)
	}
}

// having words names and values as a part of a sentence.
func having(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return " with " + joined(list)
}

// joined writes names and values as logs do.
func joined(list []string) string {
	var b strings.Builder
	for i := 0; i+1 < len(list); i += 2 {
		fmt.Fprintf(&b, " %s=%q", list[i], list[i+1])
	}
	return strings.TrimPrefix(b.String(), " ")
}

// listed describes all things, one on a line.
func listed[T fmt.Stringer](what string, all []T) string {
	if len(all) == 0 {
		return "there were no " + what
	}
	var b strings.Builder
	fmt.Fprintf(&b, "there were these %s:", what)
	for _, one := range all {
		b.WriteString("\n\t" + one.String())
	}
	return b.String()
}
