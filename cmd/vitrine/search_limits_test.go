package main

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestSearchCaps(t *testing.T) {
	text := strings.Repeat("needle\n", searchMaxMatches+1)
	for _, c := range []struct {
		text      string
		max, want int
		truncated bool
	}{
		{text, 0, searchDefaultMatches, true},
		{text, 7, 7, true},
		{text, searchMaxMatches, searchMaxMatches, true},
		{text, 5 * searchMaxMatches, searchMaxMatches, true},
		{strings.Repeat("needle\n", 7), 7, 7, false},
		{strings.Repeat("needle\n", 7) + "hay\n", 7, 7, false},
	} {
		s, _ := newTestSearcher(t, map[string]string{"a": c.text})
		out, err := s.search(t.Context(), searchInput{Pattern: "needle", MaxMatches: c.max}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(out.Matches) != c.want || out.Truncated != c.truncated {
			t.Errorf("max %d of %d bytes: got %d matches, truncated %t", c.max, len(c.text), len(out.Matches), out.Truncated)
		}
	}
}

func TestSearchEntryLimit(t *testing.T) {
	s, _ := newTestSearcher(t, map[string]string{"a/1": "x", "a/2": "x", "b/3": "x", "b/4": "x"})
	// There are 4 files and 2 folders to look at.
	for limit, want := range map[int]int{1: 0, 3: 1, 5: 3, 6: 4, 7: 4} {
		s.maxEntries = limit
		out, err := s.search(t.Context(), searchInput{Pattern: "x"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if out.FilesSearched != want || out.Truncated != (limit < 6) {
			t.Errorf("limit %d: got %d files, truncated %t, want %d files", limit, out.FilesSearched, out.Truncated, want)
		}
	}
}

func TestSearchText(t *testing.T) {
	for _, c := range []struct{ name, line, want string }{
		{"short", "needle", "needle"},
		{"300 runes", strings.Repeat("ä", 300), strings.Repeat("ä", 300)},
		{"301 runes", strings.Repeat("ä", 301), strings.Repeat("ä", 299) + "…"},
		{"wide runes", strings.Repeat("𝄞", 1000), strings.Repeat("𝄞", 299) + "…"},
		{"invalid UTF-8", "a\xffb", "a\ufffdb"},
	} {
		if got := cutText([]byte(c.line)); got != c.want {
			t.Errorf("%s: got %q", c.name, got)
		}
	}
}

// Lines far longer than the buffer of a bufio.Scanner are searched, with matches before, in and
// after them, by both ways of matching.
func TestSearchLongLines(t *testing.T) {
	long := strings.Repeat("häy ", 60_000)
	s, _ := newTestSearcher(t, map[string]string{"a": "needle\n" + long + "Needle😀end\n" + long + "\nneedle"})
	for pattern, want := range map[string]string{
		"(?i)needle":  "a:1 a:2 a:4",
		"e😀e":         "a:2",
		"end$":        "a:2",
		"^häy.*häy $": "a:3",
		"[a-z]{9}":    "",
	} {
		out, err := s.search(t.Context(), searchInput{Pattern: pattern}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := hits(out); got != want {
			t.Errorf("%s: got %q, want %q", pattern, got, want)
		}
		for _, m := range out.Matches {
			if n := utf8.RuneCountInString(m.Text); n > searchMaxTextRunes {
				t.Errorf("%s:%d: text of %d runes", m.Path, m.Line, n)
			}
		}
	}
}

func TestSearchProgress(t *testing.T) {
	for _, n := range []int{1, 99, 100, 101, 199, 250} {
		files := map[string]string{}
		for i := range n {
			files[fmt.Sprintf("f%03d", i)] = "x"
		}
		s, _ := newTestSearcher(t, files)
		calls, last := 0, 0
		_, err := s.search(t.Context(), searchInput{Pattern: "nothing"}, func(done, total int) {
			calls++
			if done <= last || total != n {
				t.Errorf("%d files: progress %d of %d after %d", n, done, total, last)
			}
			last = done
		})
		if err != nil {
			t.Fatal(err)
		}
		if calls == 0 || calls > searchMaxProgress || calls < n/searchMaxProgress || last != n {
			t.Errorf("%d files: %d calls, the last at %d", n, calls, last)
		}
	}
}

// TestSearchEndsWhenItsContextEnds cancels in each phase and expects the cause soon.
func TestSearchEndsWhenItsContextEnds(t *testing.T) {
	why := errors.New("the test says so")

	t.Run("before", func(t *testing.T) {
		s, _ := newTestSearcher(t, tree)
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(why)
		if _, err := s.search(ctx, searchInput{Pattern: "x"}, nil); !errors.Is(err, why) {
			t.Errorf("got %v", err)
		}
		if _, err := s.search(ctx, searchInput{Pattern: "x", Path: "a.go"}, nil); !errors.Is(err, why) {
			t.Errorf("one file: got %v", err)
		}
	})

	t.Run("between files", func(t *testing.T) {
		s, _ := newTestSearcher(t, tree)
		ctx, cancel := context.WithCancelCause(t.Context())
		calls := 0
		_, err := s.search(ctx, searchInput{Pattern: "x"}, func(done, total int) {
			calls++
			cancel(why)
		})
		if !errors.Is(err, why) || calls != 1 {
			t.Errorf("got %v after %d files", err, calls)
		}
	})

	// Each of these takes seconds to minutes when nobody stops it.
	slow := `(?:(\pL|\w|h|a|y){0,40}!?){0,20}#`
	for name, text := range map[string]string{
		"among short lines": strings.Repeat(strings.Repeat("hay", 20)+"\n", searchMaxFileBytes/61),
		"within one line":   strings.Repeat("hay", searchMaxFileBytes/3),
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := newTestSearcher(t, map[string]string{"a": text})
			ctx, cancel := context.WithCancelCause(t.Context())
			var stopped time.Time
			timer := time.AfterFunc(100*time.Millisecond, func() {
				stopped = time.Now()
				cancel(why)
			})
			defer timer.Stop()
			_, err := s.search(ctx, searchInput{Pattern: slow}, nil)
			if !errors.Is(err, why) {
				t.Fatalf("got %v, want the cause", err)
			}
			// Milliseconds on a quiet machine; the bound leaves room for a busy one
			// and for the race detector.
			if late := time.Since(stopped); late > time.Second {
				t.Errorf("stopped %v late", late)
			}
		})
	}
}

func TestSearchConcurrently(t *testing.T) {
	s, _ := newTestSearcher(t, tree)
	want, err := s.search(t.Context(), searchInput{Pattern: "needle"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	results := make(chan searchOutput)
	for range 8 {
		go func() {
			out, err := s.search(t.Context(), searchInput{Pattern: "needle"}, nil)
			if err != nil {
				t.Error(err)
			}
			results <- out
		}()
	}
	for range 8 {
		if got := <-results; !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
}
