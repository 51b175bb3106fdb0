// Package auditfile writes the records of package audit to a file, one JSON object a line, and rotates
// it.
package auditfile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/DeRuina/timberjack"

	"github.com/vitrine-mcp/vitrine/audit"
)

// A Config configures [New]. Path is required; all others have defaults.
type Config struct {
	// Name is the name of the sink (default "file").
	Name string
	// Path is the file. Each process needs one of its own: on Unix the empty file <Path>.lock is locked while it is open.
	// Older files are beside it: for audit.jsonl they are called audit-<time>-size.jsonl. Folders that do not exist are made.
	Path string
	// MaxSize is how large the file becomes before it is rotated, in MiB (default 100).
	MaxSize int
	// MaxFiles and MaxDays bound how many older files are kept, and for how many days. The default
	// keeps all.
	MaxFiles, MaxDays int
	// Compress compresses older files with gzip. The library does not synchronize what it compresses: a machine that loses
	// its power just then may lose that file.
	Compress bool
	// SyncEvery is how long records may be in the memory of the system only (default 1 s): a machine that
	// loses its power loses them. Negative synchronizes the file when it is closed or rotated, and not before.
	SyncEvery time.Duration
}

// A File is an [audit.Sink] that writes to a file. Its methods are safe for concurrent use.
type File struct {
	name, path string
	logger     rotator
	lock       *os.File // see [lockFile]; nil where there are no locks

	every time.Duration // see [Config.SyncEvery]
	max   int64         // bytes of a file

	syncFolder func(path string) error

	mu      sync.Mutex // guards the rest
	folders []string   // that have a new name and are not synchronized
	size    int64      // of the file
	torn    bool       // the last write has ended within a line
	text    []byte     // memory for what is written
	ends    []int      // of the lines in text
	timer   *time.Timer
	armed   bool  // the timer runs: there are records that are not synchronized
	failed  error // of the last synchronization; the next write returns it
	closed  bool
}

// A rotator is what a File needs of the library.
type rotator interface {
	io.WriteCloser
	Sync() error // does nothing without a file
	Rotate() error
}

var (
	_ audit.Sink    = (*File)(nil)
	_ audit.Resumer = (*File)(nil)
)

// New returns a sink. It makes the file if it does not exist, and returns an error if it cannot be
// written to, or if another process, or another File, has it open.
func New(c Config) (*File, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if c.Name == "" {
		c.Name = "file"
	}
	folders := foldersOf(c.Path)
	logger := &timberjack.Logger{
		Filename: c.Path, MaxSize: noMaxSize, MaxBackups: c.MaxFiles, MaxAge: c.MaxDays, FileMode: mode, Compression: "none",
	}
	if c.Compress {
		logger.Compression = "gzip"
	}
	if _, err := logger.Write(nil); err != nil {
		return nil, errors.Join(fmt.Errorf("auditfile: %w", err), logger.Close())
	}
	lock, err := lockFile(c.Path) // its folder is there now
	if err != nil {
		return nil, errors.Join(fmt.Errorf("auditfile: %w", err), logger.Close())
	}
	info, err := os.Stat(c.Path)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("auditfile: %w", err), logger.Close(), unlock(lock))
	}
	return &File{
		name: c.Name, path: c.Path, logger: logger, lock: lock, every: cmp.Or(c.SyncEvery, time.Second),
		max: int64(cmp.Or(c.MaxSize, defaultMaxSize)) << 20, size: info.Size(),
		syncFolder: syncFolder, folders: folders,
	}, nil
}

// defaultMaxSize is the default of [Config].MaxSize.
const defaultMaxSize = 100

// noMaxSize is a size in MiB that no file has. The library would rotate a file without synchronizing it before, so that
// a File does it.
const noMaxSize = math.MaxInt32

// mode is the mode of the files. Only their owner may read what callers have done.
const mode os.FileMode = 0o600

// Name implements [audit.Sink].
func (f *File) Name() string { return f.name }

// maxWrite bounds one write in bytes, so that files become hardly larger than they may, which is 1 MiB at least.
const maxWrite = 512 << 10

// Write implements [audit.Sink]. It returns the error of an earlier synchronization, so that the log
// tells of it, and writes nothing then.
func (f *File) Write(_ context.Context, entries []audit.Entry) (written int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err, f.failed = f.failed, nil; err != nil {
		return 0, err
	}
	defer f.syncSoon()
	defer f.forgetText()
	for err == nil && written < len(entries) {
		var n int
		n, err = f.write(entries[written:])
		written += n
	}
	return written, err
}

// write writes the first of the entries, as many as one write may have.
func (f *File) write(entries []audit.Entry) (written int, err error) {
	text, ends := f.text[:0], f.ends[:0]
	if f.torn {
		text = append(text, '\n')
	}
	for i := range entries {
		if len(text)+len(entries[i].Line) >= maxWrite && i > 0 {
			break
		}
		text = append(append(text, entries[i].Line...), '\n')
		ends = append(ends, len(text))
	}
	f.text, f.ends = text, ends
	if f.size > 0 && f.size+int64(len(text)) > f.max {
		if err := f.rotate(); err != nil {
			return 0, err
		}
	}
	n, err := f.logger.Write(text)
	f.size += int64(n)
	for written < len(ends) && ends[written]-1 <= n { // a line is written if only its newline is missing, which comes with the next write
		written++
	}
	if n > 0 {
		f.torn = text[n-1] != '\n'
	}
	return written, err
}

// forgetText lets go of memory that a long line has made large. The caller must hold f.mu.
func (f *File) forgetText() {
	if cap(f.text) > 2*maxWrite {
		f.text = nil
	}
}

// syncSoon has the file synchronized after a while. The caller must hold f.mu.
func (f *File) syncSoon() {
	if f.armed || f.every < 0 {
		return
	}
	f.armed = true
	if f.timer == nil {
		f.timer = time.AfterFunc(f.every, f.sync)
	} else {
		f.timer.Reset(f.every)
	}
}

// sync synchronizes the file. Writes wait meanwhile, as they would for a disk that is slow.
func (f *File) sync() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed = false
	if f.closed {
		return
	}
	f.failed = f.syncNow()
}

// syncNow synchronizes the file and its name, if its file system can do that. The caller must hold f.mu.
func (f *File) syncNow() error {
	err := ignoreUnsupported(f.logger.Sync())
	for err == nil && len(f.folders) > 0 {
		if err = f.syncFolder(f.folders[0]); err == nil {
			f.folders = f.folders[1:]
		}
	}
	if err != nil {
		return fmt.Errorf("earlier records may not be on the disk: %w", err)
	}
	return nil
}

// Rotate renames the file and begins a new one, for a program that gets a signal. If something else
// has moved the file away, it begins a new one. The file is synchronized before. If that fails, Rotate begins a new file
// nonetheless and returns the error.
func (f *File) Rotate() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rotate()
}

// rotate is Rotate. The caller must hold f.mu.
func (f *File) rotate() error {
	err := f.syncNow() // nothing synchronizes a file that is closed
	rotated := f.logger.Rotate()
	if folder := filepath.Dir(f.path); !slices.Contains(f.folders, folder) {
		f.folders = append(f.folders, folder) // the new file is synchronized together with its name
	}
	if rotated == nil {
		f.size = 0
	}
	return errors.Join(err, rotated)
}

// Close implements [audit.Sink]. It waits until older files are compressed and deleted.
func (f *File) Close() error {
	f.mu.Lock()
	f.closed = true
	if f.timer != nil {
		f.timer.Stop()
	}
	failed := errors.Join(f.failed, f.syncNow())
	f.mu.Unlock()
	return errors.Join(failed, f.logger.Close(), unlock(f.lock))
}

// unlock ends a lock of [lockFile]. Nobody asks for it twice, except a program that closes its File again.
func unlock(lock *os.File) error {
	if lock == nil {
		return nil
	}
	if err := lock.Close(); !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}
