package service_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/alicebob/miniredis/v2"
	redisserver "github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/audit"
	"github.com/vitrine-mcp/vitrine/audit/auditfile"
	"github.com/vitrine-mcp/vitrine/service"
)

// check runs --check-config, and returns what it prints.
func check(t *testing.T, args ...string) (string, error) {
	out := &syncBuffer{}
	err := service.Run(t.Context(), whoServer(), append(quiet(append(args, "--check-config")...), service.WithStdout(out))...)
	return out.String(), err
}

// auditKey is no text in hexadecimal or base64: it is used as it is.
const auditKey = "the key, of 32 bytes or more, of an audit"

// audited returns the settings of an audit with a key, and the path of its file.
func audited(t *testing.T) (file string, args []string) {
	dir := t.TempDir()
	key := filepath.Join(dir, "key")
	require.NoError(t, os.WriteFile(key, []byte(auditKey), 0o600))
	file = filepath.Join(dir, "log", "audit.jsonl")
	return file, []string{"--audit-file=" + file, "--audit-key-file=" + key}
}

// The record of a server that runs has no line of a check, and its chain has no fault.
func TestCheckConfigWritesNothingIntoTheAuditOfTheRunningServer(t *testing.T) {
	file, settings := audited(t)
	earlier := start(t, whoServer(), settings...)
	earlier.stop()
	require.NoError(t, earlier.wait(t))
	r := start(t, whoServer(), settings...)
	r.call("who", "{}")
	addr := strings.TrimSuffix(strings.TrimPrefix(r.MCP, "http://"), "/mcp")
	_, err := check(t, append(settings, "--addr="+addr, "--admin-addr="+strings.TrimPrefix(r.Admin, "http://"))...) // it listens to nothing
	require.NoError(t, err)
	r.call("who", "{}")
	r.stop()
	require.NoError(t, r.wait(t))

	v, err := audit.NewVerifier([]byte(auditKey), 1)
	require.NoError(t, err)
	lines, err := auditfile.Open(file)
	require.NoError(t, err)
	defer lines.Close()
	require.NoError(t, v.Read(file, lines))
	require.Empty(t, v.Result().Faults)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, 2, strings.Count(string(text), audit.OperationOpen), "one for each server")
}

// A check on a new machine makes neither the file of the audit nor its folder: they would belong to the user who checks.
func TestCheckConfigMakesNoAuditFile(t *testing.T) {
	file, settings := audited(t)
	_, err := check(t, settings...)
	require.NoError(t, err)
	require.NoDirExists(t, filepath.Dir(file))
}

func TestCheckConfigSaysThatTheAuditFileCannotBeOpened(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for path, want := range map[string]string{
		dir:                                 "is no regular file",
		filepath.Join(file, "x"):            file,
		filepath.Join(file, "x", "y.jsonl"): file,
	} {
		_, err := check(t, "--audit-file="+path)
		require.ErrorContains(t, err, "auditfile", path)
		require.ErrorContains(t, err, want, path)
	}
	require.FileExists(t, file)
}

// The check asks the store whether it deletes values, and changes nothing there: other replicas serve meanwhile.
func TestCheckConfigChangesNothingInTheStore(t *testing.T) {
	redis := miniredis.RunT(t)
	var mu sync.Mutex
	var commands []string
	redis.Server().SetPreHook(func(_ *redisserver.Peer, command string, _ ...string) bool {
		mu.Lock()
		defer mu.Unlock()
		commands = append(commands, strings.ToUpper(command))
		return false
	})
	keys := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(keys, []byte(encoded(1)), 0o600))
	_, err := check(t, "--state-keys-file="+keys, "--store=redis://"+redis.Addr()+"/0")
	require.NoError(t, err)
	mu.Lock()
	defer mu.Unlock()
	require.Contains(t, commands, "INFO")
	require.Subset(t, []string{"INFO", "HELLO", "CLIENT"}, commands)
}
