package auditfile

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// maxTail is how many bytes at the end of a file are searched for its last complete line.
const maxTail = 8 << 20

// Last implements [audit.Resumer]. The last complete line may be in an older file, and incomplete lines in that one and in
// newer ones.
func (f *File) Last() (line, torn []byte, err error) {
	names, err := Files(f.path)
	if err != nil {
		return nil, nil, err
	}
	var incomplete [][]byte
	for _, name := range slices.Backward(names) {
		t, err := readTail(name)
		if err != nil {
			return nil, nil, err
		}
		if name == f.path {
			f.torn = t.open
		}
		if incomplete = append(t.incomplete, incomplete...); t.line != nil {
			line = t.line
			break
		}
	}
	return line, bytes.Join(incomplete, []byte("\n")), nil
}

// A tail is the end of a file.
type tail struct {
	line       []byte   // the last complete line, or nil
	incomplete [][]byte // the lines after it
	open       bool     // the file does not end with a newline
}

// readTail reads the end of a file. If its last maxTail bytes have no complete line, it returns the last incomplete one as the
// line. The code of that is wrong, so another chain begins, with a warning.
func readTail(name string) (t tail, err error) {
	file, err := Open(name)
	if err != nil {
		return t, err
	}
	defer file.Close()
	skipped := false
	if f, ok := file.(*os.File); ok {
		if skipped, err = seekBack(f); err != nil {
			return t, err
		}
	}
	lines := bufio.NewReader(file)
	for err == nil {
		var text []byte
		text, err = lines.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return t, err
		}
		t.add(text)
	}
	if n := len(t.incomplete); skipped && t.line == nil && n > 0 {
		t.line, t.incomplete = t.incomplete[n-1], nil
	}
	return t, nil
}

// add adds the next line.
func (t *tail) add(text []byte) {
	if len(text) == 0 {
		return
	}
	whole := bytes.TrimSuffix(text, []byte("\n"))
	t.open = len(whole) == len(text)
	switch {
	case len(whole) == 0:
	case complete(whole):
		t.line, t.incomplete = whole, nil
	default:
		t.incomplete = append(t.incomplete, whole)
	}
}

// complete reports whether a line is a whole object of JSON. The beginning of an object never is one. A line that was changed
// may be one: the chain finds that.
func complete(line []byte) bool {
	return line[len(line)-1] == '}' && jsontext.Value(line).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// seekBack moves to the last maxTail bytes of a file, and reports whether there are more.
func seekBack(f *os.File) (skipped bool, err error) {
	size, err := f.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = f.Seek(max(size-maxTail, 0), io.SeekStart)
	}
	return size > maxTail, err
}
