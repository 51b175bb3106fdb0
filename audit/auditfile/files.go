package auditfile

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"
)

// Files returns a file and the older ones that New has rotated, from the oldest to the newest.
func Files(path string) ([]string, error) {
	ext := filepath.Ext(path)
	prefix := strings.TrimSuffix(filepath.Base(path), ext) + "-"
	dir, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	type file struct {
		name  string
		order string
	}
	var older []file
	for _, entry := range dir {
		name := entry.Name()
		stamp, ours := strings.CutPrefix(strings.TrimSuffix(name, ".gz"), prefix)
		stamp, suffixed := strings.CutSuffix(stamp, ext)
		if !ours || !suffixed || entry.IsDir() || !stamped(stamp) {
			continue
		}
		older = append(older, file{filepath.Join(filepath.Dir(path), name), stamp[:len(stampFormat)] + counted(stamp)})
	}
	slices.SortFunc(older, func(a, b file) int { return strings.Compare(a.order, b.order) })
	var names []string
	for _, f := range older {
		names = append(names, f.name)
	}
	if _, err := os.Stat(path); err == nil {
		names = append(names, path)
	} else if len(names) == 0 {
		return nil, err
	}
	return names, nil
}

// stampFormat is the time in the name of an older file.
const stampFormat = "2006-01-02T15-04-05.000"

// stamped reports whether a part of a name is what the library puts there: a time, a hyphen, and the reason of the
// rotation. Files of another audit, such as audit-b.jsonl beside audit.jsonl, have more in their names.
func stamped(s string) bool {
	if len(s) < len(stampFormat) {
		return false
	}
	if _, err := time.Parse(stampFormat, s[:len(stampFormat)]); err != nil {
		return false
	}
	reason, hyphen := strings.CutPrefix(s[len(stampFormat):], "-")
	return hyphen && reason != "" && !strings.ContainsFunc(reason, func(r rune) bool {
		return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
}

// counted returns what orders files of the same time: the library numbers them.
func counted(stamp string) string {
	_, number, _ := strings.Cut(stamp, "_")
	return strings.Repeat("0", max(0, 6-len(number))) + number
}

// Open opens a file of Files for reading, and uncompresses it.
func Open(name string) (io.ReadCloser, error) {
	f, err := os.Open(name)
	if err != nil || !strings.HasSuffix(name, ".gz") {
		return f, err
	}
	unzipped, err := gzip.NewReader(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &gzipFile{unzipped, f}, nil
}

// A gzipFile is a compressed file.
type gzipFile struct {
	*gzip.Reader
	file *os.File
}

// Close closes the file.
func (f *gzipFile) Close() error { return errors.Join(f.Reader.Close(), f.file.Close()) }

// Last implements [audit.Resumer]. The last line may be in an older file.
func (f *File) Last() (line, torn []byte, err error) {
	names, err := Files(f.path)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range slices.Backward(names) {
		l, rest, err := lastLine(name)
		if err != nil {
			return nil, nil, err
		}
		if torn == nil {
			torn = rest
		}
		if name == f.path {
			f.torn = rest != nil
		}
		if l != nil {
			return l, torn, nil
		}
	}
	return nil, torn, nil
}

// lastLine returns the last complete line of a file, and what follows it.
func lastLine(name string) (line, torn []byte, err error) {
	file, err := Open(name)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	if f, ok := file.(*os.File); ok {
		if err := seekBack(f); err != nil {
			return nil, nil, err
		}
	}
	lines := bufio.NewReader(file)
	for {
		text, err := lines.ReadBytes('\n')
		switch {
		case errors.Is(err, io.EOF):
			if len(text) > 0 {
				torn = text
			}
			return line, torn, nil
		case err != nil:
			return nil, nil, err
		}
		if text = bytes.TrimSuffix(text, []byte("\n")); len(text) > 0 {
			line = text
		}
	}
}

// seekBack moves to the last MiB of a file: a line is much shorter.
func seekBack(f *os.File) error {
	size, err := f.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = f.Seek(max(size-1<<20, 0), io.SeekStart)
	}
	return err
}
