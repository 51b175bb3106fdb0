package audit

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// lineOf returns the line of a record with these arguments.
func lineOf(t *testing.T, c Config, arguments string) string {
	t.Helper()
	sink := &memory{}
	c.Sinks = []Sink{sink}
	l := newLog(t, c)
	r := called("echo")
	r.Arguments = []byte(arguments)
	l.Add(r)
	require.NoError(t, l.Close(t.Context()))
	return strings.Join(sink.all(), "\n")
}

// The arguments are in no record, but their digest is, with the key of the log.
func TestArgumentsAreDigested(t *testing.T) {
	const secret = `{"password":"hunter2"}`
	line := lineOf(t, Config{Key: testKey}, secret)
	require.NotContains(t, line, "hunter2")
	digest, err := Digest(testKey, []byte(secret))
	require.NoError(t, err)
	require.Contains(t, line, `"arguments_digest":"`+digest+`"`)
	mac := hmac.New(sha256.New, derive(testKey, "arguments"))
	mac.Write([]byte(secret))
	require.Equal(t, hex.EncodeToString(mac.Sum(nil)), digest)
	plain := sha256.Sum256([]byte(secret))
	require.NotEqual(t, hex.EncodeToString(plain[:]), digest, "arguments of a small set cannot be guessed")
	require.NotContains(t, lineOf(t, Config{Key: testKey}, ""), "digest")
	_, err = Digest([]byte("short"), nil)
	require.Error(t, err)
}

// Without a key, digests of one process can be compared, and there is no chain.
func TestDigestsWithoutAKey(t *testing.T) {
	const arguments = `{"a":1}`
	first, second := lineOf(t, Config{}, arguments), lineOf(t, Config{}, arguments)
	require.Contains(t, first, `"arguments_digest":"`)
	require.NotContains(t, first, `"mac"`)
	at := strings.Index(first, "arguments_digest")
	require.NotEqual(t, first[at:at+80], second[at:at+80])
}

// The redactor decides what is kept. What it does wrong keeps the digest only.
func TestRedactor(t *testing.T) {
	for want, redact := range map[string]Redactor{
		`"arguments":{"user":"ann"}`:             func(*Record, []byte) []byte { return []byte("{ \"user\":\n\"ann\" }") },
		`"arguments":{"a":1,"b":2}`:              func(_ *Record, arguments []byte) []byte { return arguments },
		`"arguments_withheld":"too_large"`:       func(*Record, []byte) []byte { return []byte(`"` + strings.Repeat("x", 5000) + `"`) },
		`"arguments_withheld":"invalid_json"`:    func(*Record, []byte) []byte { return []byte(`{"a":1},"outcome":"ok"`) },
		`"arguments_withheld":"redactor_panic"`:  func(*Record, []byte) []byte { panic("no") },
		`","decision":"allow","stage":"handler"`: func(*Record, []byte) []byte { return nil },
	} {
		line := lineOf(t, Config{Redact: redact}, "{ \"a\": 1,\n \"b\": 2 }")
		require.Contains(t, line, want)
		require.Contains(t, line, "arguments_digest")
		require.NotContains(t, line, "\n")
	}
}

// The memory that the redactor returns may be that of the message: it is copied.
func TestRedactedArgumentsAreCopied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &memory{}
		l := newLog(t, Config{Sinks: []Sink{sink}, Redact: func(_ *Record, a []byte) []byte { return a }})
		r := called("echo")
		r.Arguments = []byte(`{"a":1}`)
		l.Add(r)
		copy(r.Arguments, `{"a":2}`)
		time.Sleep(time.Second)
		require.Contains(t, sink.all()[0], `"arguments":{"a":1}`)
		require.NoError(t, l.Close(t.Context()))
	})
}

// A key is text as tools make it, or bytes.
func TestReadKey(t *testing.T) {
	raw := []byte{0xff, ' ', '\n'}
	for range MinKeyBytes {
		raw = append(raw, 'k')
	}
	for name, text := range map[string]string{
		"hex": hex.EncodeToString(raw) + "\n", "base64": base64.StdEncoding.EncodeToString(raw) + "\n", "bytes": string(raw),
	} {
		path := filepath.Join(t.TempDir(), "key")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		key, err := ReadKey(path)
		require.NoError(t, err, name)
		require.Equal(t, raw, key, name)
	}
	path := filepath.Join(t.TempDir(), "key")
	for text, want := range map[string]string{
		"": "the key has 0 bytes", hex.EncodeToString(raw[:31]): "the key has 31 bytes", strings.Repeat("x", 5000): "is no key",
	} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := ReadKey(path)
		require.ErrorContains(t, err, want)
	}
	_, err := ReadKey(path + "none")
	require.ErrorIs(t, err, os.ErrNotExist)
}
