// Package reload keeps what was read from files up to date while a process runs, such as keys,
// certificates and tokens that an operator replaces.
package reload

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"
)

// MaxFile is the greatest size of a file, in bytes.
const MaxFile = 256 << 10

// Interval is the least time between two looks at the files.
const Interval = time.Second

// Files are one or more files that are read and parsed together. They are looked at when somebody
// asks for the value, or whether it is stale, at most once a second, and parsed when their content
// has changed. While they cannot be read or parsed the last good value stays. It is safe for
// concurrent use.
type Files[T any] struct {
	// Now is the clock. It must not be changed while others use the Files.
	Now func() time.Time

	paths  []string
	parse  func(texts [][]byte) (T, error)
	failed func(error)

	mu      sync.Mutex // guards the rest
	value   T
	texts   [][]byte
	looked  time.Time
	failing bool
}

// Open reads files for the first time. parse gets the content of each file, in the order of the
// paths. failed is called with the error when a later look fails, once until one succeeds. Neither
// error should have a secret in it. Both are called with a lock held: they must not ask for the value.
func Open[T any](parse func(texts [][]byte) (T, error), failed func(error), paths ...string) (*Files[T], error) {
	f := &Files[T]{paths: paths, parse: parse, failed: failed, Now: time.Now}
	if err := f.look(); err != nil {
		return nil, err
	}
	return f, nil
}

// Value returns what was parsed last.
func (f *Files[T]) Value() T {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lookAgain()
	return f.value
}

// Stale reports whether the last look failed, so that the value is not that of the present files.
func (f *Files[T]) Stale() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lookAgain()
	return f.failing
}

// lookAgain looks at the files if the interval is over. The caller must hold f.mu.
func (f *Files[T]) lookAgain() {
	if f.Now().Sub(f.looked) < Interval {
		return
	}
	err := f.look()
	if err != nil && !f.failing {
		f.failed(err)
	}
	f.failing = err != nil
}

// look reads the files and parses them if they have changed. The caller must hold f.mu.
func (f *Files[T]) look() error {
	first := f.looked.IsZero()
	f.looked = f.Now()
	texts := make([][]byte, len(f.paths))
	for i, path := range f.paths {
		text, once, err := read(path, first)
		if err != nil {
			return err
		}
		if texts[i] = text; once {
			texts[i] = f.texts[i]
		}
	}
	if !first && slices.EqualFunc(texts, f.texts, bytes.Equal) {
		return nil
	}
	value, err := f.parse(texts)
	if err != nil {
		return err
	}
	f.value, f.texts = value, texts
	return nil
}

// read reads a file. once says that it is a pipe, such as that of a shell, which can be read only the
// first time.
func read(path string, first bool) (text []byte, once bool, err error) {
	if !first {
		info, err := os.Stat(path)
		if err != nil {
			return nil, false, err
		}
		if !info.Mode().IsRegular() {
			return nil, true, nil
		}
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, false, err
	}
	defer file.Close()
	text, err = io.ReadAll(io.LimitReader(file, MaxFile+1))
	if err == nil && len(text) > MaxFile {
		err = fmt.Errorf("%s: the file has more than %d bytes", path, MaxFile)
	}
	return text, false, err
}
