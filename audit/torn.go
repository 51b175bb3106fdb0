package audit

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// A badLine is a line without a right code. It may be the rest of a write that was interrupted.
type badLine struct {
	text  []byte
	fault string
	whole bool // it has its newline
}

// tornLines are bad lines in their order, until the next complete line tells what they are.
type tornLines struct {
	lines []badLine
	bytes int
}

// maxTorn bounds the memory of the bad lines that a verification keeps, in bytes. If there are more, the oldest are faults. A
// line counts with its text and tornBytes.
const (
	maxTorn   = 32 << 20
	tornBytes = 256
)

// wrong keeps a bad line.
func (v *Verifier) wrong(bad badLine) {
	t := &v.torn
	t.lines = append(t.lines, bad)
	for t.bytes += len(bad.text) + tornBytes; t.bytes > maxTorn; t.lines = t.lines[1:] {
		v.fault("%s", t.lines[0].fault)
		t.bytes -= len(t.lines[0].text) + tornBytes
	}
}

// settle decides about the bad lines before a complete line. The rests of interrupted writes are no faults. First come those
// that an earlier process has left, which the line names, and then the beginnings of the line itself.
func (v *Verifier) settle(next []byte, l *link) {
	lines := v.torn.lines
	v.torn = tornLines{}
	if len(lines) == 0 {
		return
	}
	for _, bad := range lines[named(lines, l):] {
		if !bytes.HasPrefix(next, bad.text) {
			v.fault("%s", bad.fault)
		}
	}
}

// named returns how many of the bad lines before a line, from the first on, are those that it names.
func named(lines []badLine, l *link) int {
	if l.Operation != OperationOpen || l.Reason == "" {
		return 0
	}
	count, _, _ := strings.Cut(strings.TrimPrefix(l.Reason, afterTorn), incompleteLines)
	n, err := strconv.Atoi(count)
	if err != nil {
		return namedOne(lines, l)
	}
	var texts [][]byte
	for _, bad := range lines[:min(max(n, 0), len(lines))] {
		texts = append(texts, bad.text)
	}
	if tornReason(texts) != l.Reason {
		return 0
	}
	return n
}

// namedOne is named for a line that names one incomplete line. That is the first one, except in files of versions before this
// one: where a process had left incomplete lines and no complete one, the next process named the last of them, and the others
// were beginnings of it.
func namedOne(lines []badLine, l *link) int {
	last := 0
	if l.Seq == 1 {
		last = len(lines) - 1
	}
	for i := last; i >= 0; i-- {
		other := func(bad badLine) bool { return !bytes.HasPrefix(lines[i].text, bad.text) }
		if tornReason([][]byte{lines[i].text}) == l.Reason && !slices.ContainsFunc(lines[:i], other) {
			return i + 1
		}
	}
	return 0
}

// settleEnd decides about the bad lines at the end. The next process will name those that may be the rests of interrupted
// writes. All others are faults.
func (v *Verifier) settleEnd() {
	for _, bad := range v.torn.lines {
		if !bad.incomplete() {
			v.fault("%s", bad.fault)
			continue
		}
		v.result.Torn = true
	}
}

// incomplete reports whether a bad line at the end may be the beginning of a line.
func (b *badLine) incomplete() bool {
	if jsontext.Value(b.text).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) {
		return false
	}
	return !b.whole || bytes.HasPrefix(b.text, []byte(lineStart)) || strings.HasPrefix(lineStart, string(b.text))
}
