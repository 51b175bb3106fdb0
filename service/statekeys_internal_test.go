package service

import (
	"bytes"
	"encoding/base64"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/reload"
)

// testKey returns a key in base64.
func testKey(b byte) string {
	return base64.StdEncoding.EncodeToString(append(bytes.Repeat([]byte{b}, 31), ^b))
}

// A keyRig has a file of keys, a clock, and what the server was given.
type keyRig struct {
	t    *testing.T
	path string
	file *keyFile
	now  time.Time
	log  bytes.Buffer
	used [][][]byte
}

func newKeyRig(t *testing.T, keys ...string) *keyRig {
	r := &keyRig{t: t, path: filepath.Join(t.TempDir(), "keys"), now: time.Now().Add(time.Hour)}
	r.write(keys...)
	_, file, err := openKeys(&Config{StateKeysFile: r.path})
	require.NoError(t, err)
	r.file = file
	r.file.files.Now = func() time.Time { return r.now }
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&r.log, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	return r
}

func (r *keyRig) write(keys ...string) {
	require.NoError(r.t, os.WriteFile(r.path, []byte(strings.Join(keys, "\n")), 0o600))
}

// look looks at the file when the interval is over, and returns the first byte of each key in use.
func (r *keyRig) look() (inUse []byte) {
	r.now = r.now.Add(reload.Interval)
	r.file.look(func(keys ...[]byte) error {
		r.used = append(r.used, keys)
		return nil
	})
	for _, key := range *r.file.inUse {
		inUse = append(inUse, key[0])
	}
	return inUse
}

func (r *keyRig) check(loaded, failed uint64, stale bool) {
	r.t.Helper()
	state := r.file.Snapshot().StateKeys
	require.Equal(r.t, []any{loaded, failed, stale}, []any{state.Loaded, state.Failed, state.Stale})
}

// The server gets each new set of keys once.
func TestRotationOfStateKeys(t *testing.T) {
	r := newKeyRig(t, testKey(1))
	require.Equal(t, []byte{1}, r.look())
	require.Empty(t, r.used, "nothing has changed")
	r.write(testKey(1), testKey(2))
	require.Equal(t, []byte{1, 2}, r.look())
	r.write(testKey(2), testKey(1))
	require.Equal(t, []byte{2, 1}, r.look())
	r.write(testKey(2))
	require.Equal(t, []byte{2}, r.look())
	require.Equal(t, []byte{2}, r.look())
	require.Len(t, r.used, 3)
	r.check(3, 0, false)
	require.Equal(t, 3, strings.Count(r.log.String(), "state_keys.reload"))
}

// The last good keys stay while the file has a mistake or is away. That is logged once, without a key.
func TestBadFileOfStateKeys(t *testing.T) {
	for name, text := range map[string]string{
		"no base64": testKey(1) + "\ns3cr3t!", "a short key": "c2VjcmV0", "no key": "\n",
		"a key that can be guessed": base64.StdEncoding.EncodeToString(make([]byte, 32)),
	} {
		t.Run(name, func(t *testing.T) {
			r := newKeyRig(t, testKey(1), testKey(2))
			r.write(text)
			for range 3 {
				require.Equal(t, []byte{1, 2}, r.look())
			}
			r.check(0, 1, true)
			require.Empty(t, r.used)
			require.Equal(t, 1, strings.Count(r.log.String(), "state_keys.reload"), r.log.String())
			require.NotContains(t, r.log.String(), "s3cr3t")
			require.NotContains(t, r.log.String(), "c2VjcmV0")

			r.write(testKey(1), testKey(2))
			r.look()
			r.check(0, 1, false)
			require.Equal(t, 1, strings.Count(r.log.String(), "level=INFO msg=state_keys.reload"), "the log says that it is in order again")
			require.NoError(t, os.Remove(r.path))
			require.Equal(t, []byte{1, 2}, r.look())
			r.check(0, 2, true)
		})
	}
}
