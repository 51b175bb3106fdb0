package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/vitrine-mcp/vitrine/mcp"
)

const (
	searchDefaultMatches = 100       // matches returned when the caller names no number
	searchMaxMatches     = 1000      // matches returned at most
	searchMaxEntries     = 100_000   // files and folders looked at in one search
	searchMaxFileBytes   = 8 << 20   // larger files are skipped
	searchSniffBytes     = 8 << 10   // a NUL in so many first bytes makes a file binary
	searchMaxTextRunes   = 300       // the text of one match is cut to so many runes
	searchMaxProgress    = 100       // progress reports in one search
	searchReadBytes      = 256 << 10 // bytes read between two looks at the context
	searchBudget         = 1 << 18   // regular expression steps between two looks at the context
)

// A searchInput says what to search for, and where.
type searchInput struct {
	Pattern    string `json:"pattern" jsonschema:"regular expression in Go (RE2) syntax, matched against one line at a time"`
	Path       string `json:"path,omitempty" jsonschema:"folder or file to search, relative to the root folder; default: the whole root folder"`
	Include    string `json:"include,omitempty" jsonschema:"search only files whose name matches this glob, for example *.go"`
	MaxMatches int    `json:"maxMatches,omitempty" jsonschema:"stop after so many matching lines; default 100, values above 1000 count as 1000"`
	IgnoreCase bool   `json:"ignoreCase,omitempty" jsonschema:"match upper and lower case alike"`
}

// A searchMatch is one line that matches.
type searchMatch struct {
	Path string `json:"path" jsonschema:"path of the file, relative to the root folder, with forward slashes"`
	Line int    `json:"line" jsonschema:"line number, counted from 1"`
	Text string `json:"text" jsonschema:"the line, cut to 300 characters"`
}

// A searchOutput is the result of one search. Matches are ordered by path, then line.
type searchOutput struct {
	Matches       []searchMatch `json:"matches"`
	FilesSearched int           `json:"filesSearched" jsonschema:"text files that were read"`
	BytesSearched int64         `json:"bytesSearched" jsonschema:"bytes of text that were read"`
	Truncated     bool          `json:"truncated" jsonschema:"true if there are more matches, or more files than one search looks at"`
}

// A searcher searches the files under one root folder and never leaves it: every
// file is opened through an [os.Root], which refuses each path and each symbolic
// link that leads outside, even one that appears between listing and opening.
//
// It is safe for concurrent use.
type searcher struct {
	root       *os.Root
	hidden     bool // files and folders whose names begin with a dot are searched, too
	maxEntries int  // searchMaxEntries, less in tests
}

// newSearcher opens dir as the root folder. The caller closes the searcher.
func newSearcher(dir string, hidden bool) (*searcher, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the root folder: %w", err)
	}
	return &searcher{root: root, hidden: hidden, maxEntries: searchMaxEntries}, nil
}

func (s *searcher) close() error { return s.root.Close() }

// search finds the lines that match in.Pattern in the text files below in.Path.
// It skips folders and files named .git or node_modules, hidden ones unless s.hidden is set,
// symbolic links, special files, binary files, files of more than 8 MiB and files it may not read.
//
// progress may be nil. It is called with the number of files that are done, at most 100 times,
// with a larger number each time, on the calling goroutine.
//
// When ctx ends, search returns context.Cause(ctx) within milliseconds. All other errors are
// about the input, and their texts are for the model that sent it.
func (s *searcher) search(ctx context.Context, in searchInput, progress func(done, total int)) (searchOutput, error) {
	q, err := newQuery(ctx, in)
	if err != nil {
		return searchOutput{}, err
	}
	files, truncated, err := s.list(ctx, in)
	if err != nil {
		return searchOutput{}, err
	}
	q.out.Truncated = truncated

	step := max(1, (len(files)+searchMaxProgress-1)/searchMaxProgress)
	for i, name := range files {
		switch err := q.file(s.root, name); {
		case errors.Is(err, errEnough):
			q.out.Truncated = true
			return q.out, nil
		case ctx.Err() != nil:
			return searchOutput{}, context.Cause(ctx)
		case err != nil && name == cleanSearchPath(in.Path):
			return searchOutput{}, err // the caller asked for this very file
		}
		if done := i + 1; progress != nil && (done%step == 0 || done == len(files)) {
			progress(done, len(files))
		}
	}
	return q.out, nil
}

// cleanSearchPath returns the path of a request as [os.Root] and [path] take it.
func cleanSearchPath(p string) string {
	return path.Clean(filepath.ToSlash(cmp.Or(p, ".")))
}

// skips reports whether files and folders of this name are left out. Hidden files often have
// secrets in them, as .env has. Names that begin with two dots are not hidden: Kubernetes mounts the
// files of a ConfigMap in a folder with such a name.
func (s *searcher) skips(name string) bool {
	hidden := strings.HasPrefix(name, ".") && !strings.HasPrefix(name, "..") && name != "."
	return name == ".git" || name == "node_modules" || hidden && !s.hidden
}

// skipped names what is left out, for callers.
func (s *searcher) skipped() string {
	if s.hidden {
		return "files and folders named .git or node_modules"
	}
	return "hidden files and folders, and those named node_modules,"
}

// list returns the regular files below in.Path whose names match in.Include, in
// the order of their paths, and whether it stopped at the limit.
func (s *searcher) list(ctx context.Context, in searchInput) (files []string, truncated bool, err error) {
	start := cleanSearchPath(in.Path)
	switch {
	case filepath.IsAbs(in.Path) || path.IsAbs(start):
		return nil, false, mcp.ToolErrorf("path %q is absolute: give a path relative to the root folder, or none to search all of it", in.Path)
	case !filepath.IsLocal(filepath.FromSlash(start)):
		return nil, false, mcp.ToolErrorf("path %q leaves the root folder: give a path below it, without \"..\"", in.Path)
	case slices.ContainsFunc(strings.Split(start, "/"), s.skips):
		return nil, false, mcp.ToolErrorf("path %q: %s are not searched", in.Path, s.skipped())
	}
	info, err := s.root.Stat(start)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, false, mcp.ToolErrorf("path %q does not exist under the root folder", in.Path)
	case err != nil:
		return nil, false, mcp.ToolErrorf("path %q cannot be searched: %w", in.Path, plainError(err))
	case info.Mode().IsRegular():
		return []string{start}, false, nil
	case !info.IsDir():
		return nil, false, mcp.ToolErrorf("path %q is neither a regular file nor a folder", in.Path)
	}
	w := walk{ctx: ctx, searcher: s, include: in.Include, left: s.maxEntries}
	if err := w.folder(start); err != nil && !errors.Is(err, errEnough) {
		return nil, false, err
	} else if err != nil {
		truncated = true
	}
	return w.files, truncated, nil
}

// errEnough stops a walk or a search that has reached its limit.
var errEnough = errors.New("limit reached")

// A walk lists one tree of folders. It is not fs.WalkDir, because that reads a
// folder of any size to its end before it asks whether to go on.
type walk struct {
	*searcher
	ctx     context.Context
	include string // glob; empty means every name
	left    int    // entries it may still look at
	files   []string
}

// folder adds the files of one folder and of all folders in it. A folder that
// cannot be read counts as empty: one locked folder must not fail a search.
func (w *walk) folder(dir string) error {
	entries, readErr := w.read(dir)
	if readErr != nil && !errors.Is(readErr, errEnough) {
		return readErr
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		switch {
		case w.skips(e.Name()):
		case e.IsDir():
			if err := w.folder(name); err != nil {
				return err
			}
		case e.Type().IsRegular(): // no links: a linked file is searched where it lives
			if ok, _ := path.Match(w.include, e.Name()); ok || w.include == "" {
				w.files = append(w.files, name)
			}
		}
	}
	return readErr
}

// read returns the entries of one folder, and errEnough if it had to leave some out.
func (w *walk) read(dir string) ([]fs.DirEntry, error) {
	f, err := w.root.Open(dir)
	if err != nil {
		return nil, w.cause()
	}
	defer f.Close()
	var entries []fs.DirEntry
	for {
		batch, err := f.ReadDir(1024)
		if w.ctx.Err() != nil {
			return nil, w.cause()
		}
		if len(batch) > w.left {
			entries, w.left = append(entries, batch[:w.left]...), 0
			return entries, errEnough
		}
		w.left -= len(batch)
		entries = append(entries, batch...)
		if err != nil { // io.EOF, or a folder that can be read no further
			return entries, nil
		}
	}
}

func (w *walk) cause() error {
	if w.ctx.Err() != nil {
		return context.Cause(w.ctx)
	}
	return nil
}

// A query is one search in progress. It belongs to one goroutine.
type query struct {
	ctx   context.Context
	re    *regexp.Regexp
	cost  int // patternSize: about the most steps that one rune can take
	spent int // steps since the context was last looked at
	max   int
	buf   bytes.Buffer // the file being searched, reused for the next
	out   searchOutput
}

// newQuery checks everything in the input that can be checked without the files.
func newQuery(ctx context.Context, in searchInput) (*query, error) {
	switch {
	case in.Pattern == "":
		return nil, mcp.ToolErrorf("pattern is empty: give a regular expression")
	case len(in.Pattern) > searchMaxPattern:
		return nil, mcp.ToolErrorf("pattern is %d bytes long, %d are allowed: search for less at a time", len(in.Pattern), searchMaxPattern)
	case in.MaxMatches < 0:
		return nil, mcp.ToolErrorf("maxMatches is %d: give a number from 1 to %d", in.MaxMatches, searchMaxMatches)
	case strings.Contains(in.Include, "/"):
		return nil, mcp.ToolErrorf("include %q contains a slash, but is matched against the file name only: use path for the folder and, for example, *.go for the name", in.Include)
	}
	if _, err := path.Match(in.Include, ""); err != nil {
		return nil, mcp.ToolErrorf("include %q is not a glob: use * ? and [a-z], for example *.go", in.Include)
	}
	flags := syntax.Perl
	if in.IgnoreCase {
		flags |= syntax.FoldCase
	}
	tree, err := syntax.Parse(in.Pattern, flags)
	if err != nil {
		return nil, patternError(in.Pattern, err)
	}
	cost := patternSize(tree)
	if cost > searchMaxProgram {
		return nil, mcp.ToolErrorf("pattern unfolds to %d elements, %d are allowed: use smaller repetition counts", cost, searchMaxProgram)
	}
	expr := in.Pattern
	if in.IgnoreCase {
		expr = "(?i)" + expr
	}
	re, err := regexp.Compile(expr)
	if err != nil {
		return nil, patternError(in.Pattern, err)
	}
	return &query{
		ctx:  ctx,
		re:   re,
		cost: cost,
		max:  min(cmp.Or(in.MaxMatches, searchDefaultMatches), searchMaxMatches),
		out:  searchOutput{Matches: []searchMatch{}}, // [] in JSON, never null
	}, nil
}

// plainError drops the operation and the path that the os package adds.
func plainError(err error) error {
	var fault *fs.PathError
	if errors.As(err, &fault) {
		return fault.Err
	}
	return err
}

// file searches one file. Its error says why the file was skipped, or is errEnough;
// when the context has ended it may be anything.
func (q *query) file(root *os.Root, name string) error {
	if err := q.load(root, name); err != nil {
		return err
	}
	text := q.buf.Bytes()
	q.out.FilesSearched++
	q.out.BytesSearched += int64(len(text))
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	for line := 1; len(text) > 0; line++ {
		row, rest, _ := bytes.Cut(text, []byte{'\n'})
		text = rest
		row = bytes.TrimSuffix(row, []byte{'\r'})
		matched, err := q.match(row)
		switch {
		case err != nil:
			return err
		case !matched:
		case len(q.out.Matches) == q.max:
			return errEnough // only now is it certain that there are more
		default:
			q.out.Matches = append(q.out.Matches, searchMatch{
				Path: strings.ToValidUTF8(name, "\ufffd"),
				Line: line,
				Text: cutText(row),
			})
		}
	}
	return nil
}

// load reads one text file into q.buf.
func (q *query) load(root *os.Root, name string) error {
	// Non-blocking, because a named pipe may have taken the place of the file
	// since it was listed, and opening one waits for a writer.
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return mcp.ToolErrorf("path %q cannot be read: %w", name, plainError(err))
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return mcp.ToolErrorf("path %q cannot be read: %w", name, plainError(err))
	case !info.Mode().IsRegular():
		return mcp.ToolErrorf("path %q is not a regular file", name)
	case info.Size() > searchMaxFileBytes:
		return mcp.ToolErrorf("path %q is larger than %d bytes and is not searched", name, searchMaxFileBytes)
	}
	q.buf.Reset()
	if info.Size() == 0 { // also the files of /proc, some of which never end
		return nil
	}
	for r := io.LimitReader(f, searchMaxFileBytes+1); ; {
		n, err := io.CopyN(&q.buf, r, searchReadBytes)
		switch {
		case q.ctx.Err() != nil:
			return context.Cause(q.ctx)
		case q.binary():
			return mcp.ToolErrorf("path %q is a binary file and is not searched", name)
		case q.buf.Len() > searchMaxFileBytes: // it has grown
			return mcp.ToolErrorf("path %q is larger than %d bytes and is not searched", name, searchMaxFileBytes)
		case errors.Is(err, io.EOF) && n < searchReadBytes:
			return nil
		case err != nil:
			return mcp.ToolErrorf("path %q cannot be read: %w", name, plainError(err))
		}
	}
}

func (q *query) binary() bool {
	head := q.buf.Bytes()
	return bytes.IndexByte(head[:min(len(head), searchSniffBytes)], 0) >= 0
}

// match reports whether one line matches. The regexp package takes no context, and
// a large pattern on a line of megabytes runs for minutes, so long lines are fed to
// it rune by rune and end early when the context does. Short lines take the direct
// way, which is several times faster.
func (q *query) match(line []byte) (bool, error) {
	if steps := (len(line) + 1) * q.cost; steps <= searchBudget {
		q.spend(steps)
		return q.re.Match(line), q.cause()
	}
	return q.re.MatchReader(&lineReader{query: q, line: line}), q.cause()
}

// spend counts steps and reports whether the search may go on.
func (q *query) spend(steps int) bool {
	if q.spent += steps; q.spent < searchBudget {
		return true
	}
	q.spent = 0
	return q.ctx.Err() == nil
}

// cause returns why the context ended, if it has and q.spent says it is time to look.
func (q *query) cause() error {
	if q.spent == 0 && q.ctx.Err() != nil {
		return context.Cause(q.ctx)
	}
	return nil
}

// A lineReader reads one line and pretends that it ends when the context does.
type lineReader struct {
	*query
	line []byte
}

func (r *lineReader) ReadRune() (rune, int, error) {
	if len(r.line) == 0 || !r.spend(r.query.cost) {
		return 0, 0, io.EOF
	}
	c, size := utf8.DecodeRune(r.line)
	r.line = r.line[size:]
	return c, size, nil
}
