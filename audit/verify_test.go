package audit

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// written returns the lines of a log with a key that has taken some records.
func written(t *testing.T, c Config, last string, records int) []string {
	t.Helper()
	sink := &memory{last: last}
	c.Sinks, c.Key = []Sink{sink}, testKey
	l := newLog(t, c)
	for i := range records {
		l.Add(called(fmt.Sprint("tool", i)))
	}
	require.NoError(t, l.Close(t.Context()))
	return sink.lines
}

// verify checks lines.
func verify(t *testing.T, lines []string, heads ...Head) Verification {
	t.Helper()
	return verifyText(t, strings.Join(lines, "\n")+"\n", heads...)
}

func verifyText(t *testing.T, text string, heads ...Head) Verification {
	t.Helper()
	v, err := NewVerifier(testKey, 1)
	require.NoError(t, err)
	v.Expect(heads...)
	require.NoError(t, v.Read("audit.jsonl", strings.NewReader(text)))
	return v.Result()
}

func TestUntouchedLinesAreFine(t *testing.T) {
	first := written(t, Config{}, "", 10)
	got := verify(t, first)
	require.Equal(t, Verification{Lines: 12, First: 1, Last: 12, Head: got.Head, Closed: true}, got)
	head, err := ParseHead(got.Head.String() + "\n")
	require.NoError(t, err)
	require.Equal(t, got.Head, head)
	// The next process goes on.
	all := slices.Concat(first, written(t, Config{}, first[11], 3))
	require.Equal(t, Verification{Lines: 17, First: 1, Last: 17, Head: verify(t, all).Head, Closed: true}, verify(t, all, got.Head))
}

// Each kind of tampering is found.
func TestTamperingIsFound(t *testing.T) {
	lines := written(t, Config{}, "", 10)
	head := verify(t, lines).Head
	other := written(t, Config{}, "", 10)
	for name, tc := range map[string]struct {
		change func(l []string) []string
		want   string
	}{
		"a text is changed":         {func(l []string) []string { l[4] = strings.Replace(l[4], "tool3", "tool9", 1); return l }, ":5: the code is wrong"},
		"a byte of the code":        {func(l []string) []string { l[4] = l[4][:len(l[4])-3] + "_" + `"}`; return l }, ":5: the code is wrong"},
		"a line is replaced":        {func(l []string) []string { l[4] = `{"operation":"tools/call"}`; return l }, ":5: the line has no code"},
		"a line of another chain":   {func(l []string) []string { l[4] = other[4]; return l }, "line 5 does not follow"},
		"all lines from the middle": {func(l []string) []string { return append(l[:5], other[5:]...) }, "line 6 does not follow"},
		"a line is removed":         {func(l []string) []string { return slices.Delete(l, 4, 5) }, "the lines 5 to 5 are missing"},
		"the beginning is removed":  {func(l []string) []string { return l[3:] }, "the lines 1 to 3 are missing"},
		"two lines are swapped":     {func(l []string) []string { l[4], l[5] = l[5], l[4]; return l }, "line 5 comes after line 6"},
		"a line is repeated":        {func(l []string) []string { return slices.Insert(l, 4, l[4]) }, "line 5 comes after line 5"},
		"a line is inserted":        {func(l []string) []string { return slices.Insert(l, 4, "forged") }, ":5: the line has no code"},
		"the end is cut off":        {func(l []string) []string { return l[:8] }, "the end was cut off: line 12 was published"},
		"the last line is cut off":  {func(l []string) []string { return l[:11] }, "the end was cut off"},
		"the last line is cut":      {func(l []string) []string { l[11] = l[11][:40]; return l }, "the end was cut off"},
		"everything is removed":     {func([]string) []string { return nil }, "there is no line"},
		"written anew":              {func([]string) []string { return other }, "line 12 is not the one whose head was published"},
		"another chain begins":      {func(l []string) []string { return append(l, other...) }, "another chain begins"},
		"a session of a process":    {func(l []string) []string { return append(l[:5], written(t, Config{}, l[4], 2)...) }, "the end was cut off"},
	} {
		got := verify(t, tc.change(slices.Clone(lines)), head)
		require.NotEmpty(t, got.Faults, name)
		require.Contains(t, strings.Join(got.Faults, "\n"), tc.want, name)
	}
	// Every byte of a line matters.
	for i := range lines[3] {
		changed := slices.Clone(lines)
		text := []byte(lines[3])
		text[i] ^= 1
		changed[3] = string(text)
		require.NotEmpty(t, verify(t, changed).Faults, i)
	}
	v, err := NewVerifier(bytes.Repeat([]byte("x"), 32), 1)
	require.NoError(t, err)
	require.NoError(t, v.Read("f", strings.NewReader(strings.Join(lines, "\n"))))
	require.NotEmpty(t, v.Result().Faults, "another key")
}

// Old files may be deleted because of their age: who verifies says from which line on.
func TestFirstLine(t *testing.T) {
	lines := written(t, Config{}, "", 10)
	v, err := NewVerifier(testKey, 4)
	require.NoError(t, err)
	require.NoError(t, v.Read("f", strings.NewReader(strings.Join(lines[3:], "\n"))))
	require.Empty(t, v.Result().Faults)
}

// An interrupted write leaves the beginning of a line, which is no fault: the line comes again, or the
// next process says that it has found it.
func TestInterruptedWrites(t *testing.T) {
	lines := written(t, Config{}, "", 3)
	again := slices.Insert(slices.Clone(lines), 2, lines[2][:50], lines[2][:20], "", lines[2][:80])
	require.Empty(t, verify(t, again).Faults)
	require.NotEmpty(t, verify(t, slices.Insert(slices.Clone(lines), 2, lines[3][:len(lines[3])-5])).Faults)

	const torn = `{"time":"2001-11-2`
	got := verifyText(t, strings.Join(lines, "\n")+"\n"+torn)
	require.True(t, got.Torn)
	require.Empty(t, got.Faults)
	sink := &memory{last: lines[4], torn: torn}
	l := newLog(t, Config{Sinks: []Sink{sink}, Key: testKey})
	require.NoError(t, l.Close(t.Context()))
	require.Empty(t, verify(t, slices.Concat(lines, []string{torn}, sink.lines)).Faults)
	require.NotEmpty(t, verify(t, slices.Concat(lines, []string{torn + "x"}, sink.lines)).Faults)
}

// Lines of earlier versions are still fine: these named the last of several incomplete lines at the beginning of a file.
func TestLinesOfEarlierVersions(t *testing.T) {
	const long, short = `{"time":"2001-11-2`, `{"time":"200` // no beginnings of the lines that are written now
	for _, before := range [][]string{{short, long}, {long}, {long, `{"t`}, {short, short, long}, {long, long}} {
		sink := &memory{torn: long}
		l := newLog(t, Config{Sinks: []Sink{sink}, Key: testKey})
		require.NoError(t, l.Close(t.Context()))
		require.Contains(t, sink.lines[0], `"reason":"after an incomplete line: `)
		require.Empty(t, verify(t, slices.Concat(before, sink.lines)).Faults)
		require.NotEmpty(t, verify(t, slices.Concat([]string{"x"}, before, sink.lines)).Faults)
	}
	lines := written(t, Config{}, "", 3)
	sink := &memory{last: lines[4], torn: long}
	l := newLog(t, Config{Sinks: []Sink{sink}, Key: testKey})
	require.NoError(t, l.Close(t.Context()))
	require.Empty(t, verify(t, slices.Concat(lines, []string{long}, sink.lines)).Faults)
	require.NotEmpty(t, verify(t, slices.Concat(lines, []string{`{"x`, long}, sink.lines)).Faults, "it was added later")
}

// Lines at the end that are no beginnings of lines are faults, and so are complete ones without a right code.
func TestBadLinesAtTheEnd(t *testing.T) {
	lines := written(t, Config{}, "", 3)
	text := strings.Join(lines, "\n") + "\n"
	for _, torn := range []string{"{", "{\n", `{"time":"2026` + "\n" + `{"time":"1`, `{"time":"2026` + "\n", "\x00\x00"} {
		got := verifyText(t, text+torn)
		require.Empty(t, got.Faults, torn)
		require.True(t, got.Torn, torn)
	}
	for _, bad := range []string{"x\n", "x\n{", strings.Replace(lines[2], "echo", "ech\xff", 1) + "\n", `{"time":"2026","time":"2026"}` + "\n", lines[2][:len(lines[2])-3] + `x"}`, `{"time":"2026"}`, `{"time":"2026"}` + "\n" + `{"time":"1`} {
		require.NotEmpty(t, verifyText(t, text+bad).Faults, bad)
	}
}

// A verification keeps a bounded number of bad lines.
func TestManyBadLines(t *testing.T) {
	got := verifyText(t, strings.Repeat("{\n", maxTorn/tornBytes+1000))
	require.Greater(t, got.More, 1000)
	require.True(t, got.Torn)
}

// The head is logged at intervals, while records come, and at the end.
func TestHeadsArePublished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		sink := &memory{}
		l := newLog(t, Config{Sinks: []Sink{sink}, Key: testKey, Logger: slog.New(slog.NewTextHandler(&text, nil))})
		for range 10 {
			l.Add(called("echo"))
			time.Sleep(30 * time.Second)
		}
		time.Sleep(10 * time.Minute)
		require.NoError(t, l.Close(t.Context()))
		var heads []Head
		for line := range strings.Lines(text.String()) {
			_, head, ok := strings.Cut(line, "msg=audit.head sink=memory head=")
			require.True(t, ok, line)
			h, err := ParseHead(head)
			require.NoError(t, err)
			heads = append(heads, h)
		}
		require.Len(t, heads, 6)
		require.Equal(t, uint64(12), heads[5].Seq)
		require.Equal(t, uint64(12), l.Stats()[0].Head)
		require.Empty(t, verify(t, sink.lines, heads...).Faults)
		require.NotEmpty(t, verify(t, sink.lines[:11], heads...).Faults)
	})
}

// A file whose last line has another key begins a chain of its own, with a warning.
func TestUnknownLastLine(t *testing.T) {
	var text bytes.Buffer
	lines := written(t, Config{Logger: slog.New(slog.NewTextHandler(&text, nil))}, `{"operation":"x"}`, 1)
	require.Equal(t, uint64(1), verify(t, lines).First)
	require.Contains(t, text.String(), "msg=audit.new_chain sink=memory")
}

func TestBadHeads(t *testing.T) {
	for _, text := range []string{"", "12", "x:" + strings.Repeat("a", codeLength), "12:short", "-1:" + strings.Repeat("a", codeLength)} {
		_, err := ParseHead(text)
		require.Error(t, err, text)
	}
}

// The faults are bounded, and counted.
func TestManyFaults(t *testing.T) {
	var lines []string
	for i := range 500 {
		lines = append(lines, fmt.Sprint("forged", i))
	}
	got := verify(t, lines)
	require.Len(t, got.Faults, maxFaults)
	require.Equal(t, 401, got.More)
	v, err := NewVerifier(testKey, 1)
	require.NoError(t, err)
	require.ErrorContains(t, v.Read("f", strings.NewReader(strings.Repeat("x", 5<<20))), "f:1: ")
}

// Nothing but the lines of the log verifies without a fault.
func FuzzVerifier(f *testing.F) {
	f.Add([]byte("{}\n"))
	f.Add([]byte(`{"seq":1,"prev":"","mac":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := NewVerifier(testKey, 1)
		require.NoError(t, err)
		if v.Read("f", bytes.NewReader(text)) == nil {
			require.NotEmpty(t, v.Result().Faults)
		}
	})
}
