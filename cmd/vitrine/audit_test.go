package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/audit"
	"github.com/vitrine-mcp/vitrine/audit/auditfile"
)

// writeAudit writes records to a file, and returns it with the files of the key and of the log.
func writeAudit(t *testing.T, format func(*bytes.Buffer) slog.Handler) (path, keyFile, logFile string) {
	t.Helper()
	dir := t.TempDir()
	path, keyFile, logFile = filepath.Join(dir, "audit.jsonl"), filepath.Join(dir, "key"), filepath.Join(dir, "server.log")
	key := bytes.Repeat([]byte{7}, audit.MinKeyBytes)
	require.NoError(t, os.WriteFile(keyFile, []byte(hex.EncodeToString(key)+"\n"), 0o600))
	f, err := auditfile.New(auditfile.Config{Path: path})
	require.NoError(t, err)
	var text bytes.Buffer
	l, err := audit.New(audit.Config{Sinks: []audit.Sink{f}, Key: key, Logger: slog.New(format(&text))})
	require.NoError(t, err)
	for range 5 {
		l.Add(audit.Record{Time: time.Now(), Operation: "tools/call", Target: "echo", Outcome: audit.OutcomeOK})
	}
	require.NoError(t, l.Close(context.Background()))
	require.NoError(t, os.WriteFile(logFile, text.Bytes(), 0o600))
	return path, keyFile, logFile
}

// What was not touched has no fault. A changed text and an end that was cut off are found.
func TestAuditVerify(t *testing.T) {
	for name, format := range map[string]func(*bytes.Buffer) slog.Handler{
		"text": func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) },
		"json": func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			path, keyFile, logFile := writeAudit(t, format)
			verify := func(flags ...string) (string, error) {
				var out strings.Builder
				err := auditCommand(&out, append(append([]string{"verify", "--key-file", keyFile}, flags...), path))
				return out.String(), err
			}
			out, err := verify()
			require.NoError(t, err)
			require.Contains(t, out, "7 lines in 1 files, numbers 1 to 7, head 7:")
			require.Contains(t, out, "lines that were cut off at the end are not noticed")
			require.Contains(t, out, "no fault")
			_, head, _ := strings.Cut(out, "head ")
			head, _, _ = strings.Cut(head, "\n")
			out, err = verify("--heads", logFile)
			require.NoError(t, err)
			require.NotContains(t, out, "not noticed")

			whole, err := os.ReadFile(path)
			require.NoError(t, err)
			lines := strings.SplitAfter(string(whole), "\n")
			require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines[:5], "")), 0o600))
			out, err = verify()
			require.NoError(t, err)
			require.Contains(t, out, "the records have no end")
			for _, flags := range [][]string{{"--heads", logFile}, {"--head", head}} {
				out, err = verify(flags...)
				require.ErrorContains(t, err, "1 faults")
				require.Contains(t, out, "the end was cut off: line 7 was published, and the last line is 5")
			}
			require.NoError(t, os.WriteFile(path, bytes.Replace(whole, []byte("echo"), []byte("gone"), 1), 0o600))
			out, err = verify()
			require.Error(t, err)
			require.Contains(t, out, "audit.jsonl:2: the code is wrong")
			require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines[2:], "")), 0o600))
			_, err = verify()
			require.Error(t, err)
			_, err = verify("--from", "3")
			require.NoError(t, err)
		})
	}
}

func TestAuditUsage(t *testing.T) {
	path, keyFile, logFile := writeAudit(t, func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) })
	for _, args := range [][]string{
		nil, {"digest"}, {"verify"}, {"verify", path}, {"verify", "--key-file", keyFile}, {"verify", "--key-file", logFile + "none", path},
		{"verify", "--key-file", keyFile, "--head", "x", path}, {"verify", "--key-file", keyFile, path + "none"},
		{"verify", "--key-file", keyFile, "--heads", logFile, "--sink", "other", path}, {"verify", "--key-file", keyFile, "--heads", keyFile + "none", path},
	} {
		require.Error(t, auditCommand(&strings.Builder{}, args), args)
	}
	var out strings.Builder
	require.NoError(t, auditCommand(&out, []string{"verify", "--help"}))
	require.Contains(t, out.String(), "-key-file")
}
