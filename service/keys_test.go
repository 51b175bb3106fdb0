package service_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/server/servertest"
	"github.com/vitrine-mcp/vitrine/service"
)

func key(b byte) []byte { return append(bytes.Repeat([]byte{b}, 31), ^b) }

func encoded(b byte) string { return base64.StdEncoding.EncodeToString(key(b)) }

// newAsking returns a server whose tool asks for the roots.
func newAsking(opts ...server.Option) *server.Server {
	srv := server.New("asking", "1", opts...)
	server.AddTool(srv, server.Tool{Name: "ask"}, func(_ context.Context, call *server.Call, _ struct{}) (string, error) {
		_, err := call.Roots("r")
		return "done", err
	})
	return srv
}

// stateOf lets the tool of a server ask, and returns the state that comes with the question.
func stateOf(t *testing.T, srv *server.Server) string {
	t.Helper()
	var asked struct{ RequestState string }
	require.NoError(t, json.Unmarshal(ask(t, srv, map[string]any{"name": "ask"}), &asked))
	require.NotEmpty(t, asked.RequestState)
	return asked.RequestState
}

func ask(t *testing.T, srv *server.Server, params any) []byte {
	t.Helper()
	client := servertest.Connect(t, srv, servertest.Capabilities(mcp.ClientCapabilities{Roots: &mcp.RootsCapability{}}))
	result, err := client.Call(t.Context(), mcp.MethodToolsCall, params)
	require.NoError(t, err)
	require.NoError(t, client.Close())
	return result
}

// runs serves a server with settings and calls f while it serves.
func runs(t *testing.T, srv *server.Server, args []string, env map[string]string, f func()) (log string, err error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var stderr syncBuffer
	err = service.Run(ctx, srv, service.WithArgs(append(args, "--addr=127.0.0.1:0", "--admin-addr=off", "--log-level=debug")),
		service.WithStderr(&stderr), service.WithGetenv(func(name string) string { return env[name] }),
		service.WithListening(func(service.Endpoints) { f(); cancel() }))
	return stderr.String(), err
}

// Keys reach the server: what a replica with the same key has begun can be gone on with.
func TestStateKeys(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(file, []byte(encoded(2)+"\n"+encoded(1)+"\n"), 0o600))
	for name, tt := range map[string]struct {
		args []string
		env  map[string]string
	}{
		"variable":           {env: map[string]string{"VITRINE_STATE_KEYS": encoded(2) + ", " + encoded(1)}},
		"without padding":    {env: map[string]string{"VITRINE_STATE_KEYS": encoded(1)[:43]}},
		"file":               {args: []string{"--state-keys-file", file}},
		"file as a variable": {env: map[string]string{"VITRINE_STATE_KEYS_FILE": file}},
	} {
		t.Run(name, func(t *testing.T) {
			state := stateOf(t, newAsking(server.WithStateKeys(key(1))))
			srv := newAsking()
			log, err := runs(t, srv, tt.args, tt.env, func() {
				got := ask(t, srv, map[string]any{
					"name": "ask", "requestState": state, "inputResponses": map[string]any{"r": map[string]any{"roots": []any{}}},
				})
				assert.Contains(t, string(got), "done")
			})
			require.NoError(t, err)
			assert.NotContains(t, log, encoded(1)[:8], "no key is ever printed")
		})
	}
}

func TestStateKeyMistakes(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		return file
	}
	good := write("good", encoded(1))
	for name, tt := range map[string]struct {
		args []string
		keys string
		want string
	}{
		"no base64":      {keys: encoded(1) + ",s3cr3t!", want: "invalid value for VITRINE_STATE_KEYS: key 2 is not base64"},
		"too short":      {keys: "c2VjcmV0", want: "state key 1 has 6 bytes and needs 32"},
		"empty":          {keys: " , ", want: "there is no key"},
		"both":           {keys: encoded(1), args: []string{"--state-keys-file", good}, want: "both"},
		"no file":        {args: []string{"--state-keys-file", filepath.Join(dir, "none")}, want: "state keys"},
		"empty file":     {args: []string{"--state-keys-file", write("empty", "\n")}, want: "there is no key"},
		"file of others": {args: []string{"--state-keys-file", write("pem", "-----BEGIN s3cr3t-----")}, want: "is not base64"},
	} {
		t.Run(name, func(t *testing.T) {
			log, err := runs(t, newAsking(), tt.args, map[string]string{"VITRINE_STATE_KEYS": tt.keys}, func() { t.Error("it serves") })
			require.ErrorContains(t, err, tt.want)
			assert.NotContains(t, err.Error()+log, "s3cr3t")
			assert.NotContains(t, err.Error()+log, "c2VjcmV0")
		})
	}
}

// However a configuration is printed, its keys are not.
func TestKeysAreNotPrinted(t *testing.T) {
	cfg := service.DefaultConfig()
	cfg.StateKeys = service.Keys{[]byte("s3cr3t"), []byte("s3cr3t")}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "config", cfg, "keys", cfg.StateKeys)
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "config", cfg, "keys", cfg.StateKeys)
	raw, err := json.Marshal(cfg)
	require.NoError(t, err)
	text := fmt.Sprintf("%v %+v %#v %s", cfg, cfg, cfg, cfg.StateKeys) + log.String() + string(raw)
	assert.Contains(t, text, "2 keys")
	for _, secret := range []string{"s3cr3t", "115 51 99", "0x73", base64.StdEncoding.EncodeToString([]byte("s3cr3t"))} {
		assert.NotContains(t, text, secret)
	}
}
