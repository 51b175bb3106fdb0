package auditfile

import (
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
