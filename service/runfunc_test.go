package service_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/service"
)

var files = mcp.Implementation{Name: "files", Version: "4.5.6", Description: "Searches files."}

// When the server is made its flags have their values, and what the operator has set is in
// force before anything is registered.
func TestRunFuncMakesTheServerAfterTheFlagsWereRead(t *testing.T) {
	var root string
	var log syncBuffer
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := service.RunFunc(ctx, files, func(_ context.Context, env *service.Env) (*server.Server, error) {
		assert.Equal(t, "/srv", root)
		assert.Equal(t, "127.0.0.1:0", env.Config.Addr)
		slog.Warn("making it")
		srv, err := env.NewServer(server.WithLimits(server.Limits{MaxDepth: 9, MaxBatch: 8}))
		require.NoError(t, err)
		assert.Equal(t, files, srv.Info())
		assert.Equal(t, 7, srv.Limits().MaxDepth, "the operator's")
		assert.Equal(t, 8, srv.Limits().MaxBatch, "the program's")
		return srv, srv.SetLimits(server.Limits{}) // Run has the last word
	}, append(quiet("--max-depth=7", "--root=/srv", "--log-format=json"), service.WithStderr(&log),
		service.WithFlags(func(fs *flag.FlagSet) { fs.StringVar(&root, "root", ".", "") }),
		service.WithListening(func(service.Endpoints) { cancel() }))...)
	require.NoError(t, err)
	assert.Contains(t, log.String(), `"msg":"making it"`, "the log is as configured")
	assert.Contains(t, log.String(), `"name":"files","version":"4.5.6"`)
}

// A server that the program makes by itself gets the operator's limits after that.
func TestRunFuncConfiguresAnyServer(t *testing.T) {
	srv, _ := newGated(t, false)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	require.NoError(t, service.RunFunc(ctx, files, func(context.Context, *service.Env) (*server.Server, error) { return srv, nil },
		append(quiet("--max-depth=7"), service.WithListening(func(service.Endpoints) { cancel() }))...))
	assert.Equal(t, 7, srv.Limits().MaxDepth)
}

// What asks for information, and a mistake in the configuration, make no server. The
// program is named all the same.
func TestRunFuncMakesNoServerForInformation(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	for _, tt := range []struct {
		arg, says, fails string
	}{
		{arg: "--help", says: "Searches files."},
		{arg: "--version", says: "files 4.5.6"},
		{arg: "--healthcheck=livez", fails: "health check"},
		{arg: "--path=mcp", fails: "want a path"},
		{arg: "--state-keys-file=" + missing, fails: missing},
	} {
		var out bytes.Buffer
		err := service.RunFunc(t.Context(), files, func(context.Context, *service.Env) (*server.Server, error) {
			t.Error("the server is made: ", tt.arg)
			return nil, errors.New("made")
		}, append(quiet(tt.arg), service.WithStdout(&out))...)
		if tt.fails != "" {
			assert.ErrorContains(t, err, tt.fails, tt.arg)
			continue
		}
		assert.NoError(t, err, tt.arg)
		assert.Contains(t, out.String(), tt.says, tt.arg)
	}
}

func TestRunFuncEndsWithTheErrorOfItsBuild(t *testing.T) {
	before := slog.Default()
	errNoIndex := errors.New("no index")
	err := service.RunFunc(t.Context(), files, func(context.Context, *service.Env) (*server.Server, error) { return nil, errNoIndex }, quiet()...)
	assert.ErrorIs(t, err, errNoIndex)
	assert.ErrorContains(t, err, "service: the server could not be made: no index")
	assert.Same(t, before, slog.Default())

	err = service.RunFunc(t.Context(), files, func(context.Context, *service.Env) (*server.Server, error) { return nil, nil }, quiet()...)
	assert.ErrorContains(t, err, "neither a server nor an error")

	err = service.RunFunc(t.Context(), files, func(_ context.Context, env *service.Env) (*server.Server, error) {
		return env.NewServer(server.WithPageSize(-1))
	}, quiet()...)
	assert.ErrorContains(t, err, "page size")

	ctx, cancel := context.WithCancel(t.Context())
	err = service.RunFunc(ctx, files, func(ctx context.Context, _ *service.Env) (*server.Server, error) {
		cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	}, quiet()...)
	assert.ErrorIs(t, err, context.Canceled, "a slow build is told to end")
}

// The keys of the operator are in force in a server that NewServer makes, and one that is
// too short is an error.
func TestRunFuncSetsStateKeys(t *testing.T) {
	short := service.WithGetenv(func(name string) string { return map[string]string{"VITRINE_STATE_KEYS": "c2hvcnQ="}[name] })
	err := service.RunFunc(t.Context(), files, func(_ context.Context, env *service.Env) (*server.Server, error) {
		srv, err := env.NewServer()
		assert.ErrorContains(t, err, "key")
		assert.Nil(t, srv)
		return srv, err
	}, append(quiet(), short)...)
	require.ErrorContains(t, err, "could not be made")
}

// With a configuration made in Go the program's own flags have their defaults.
func TestFlagsHaveTheirDefaultsBesideAConfig(t *testing.T) {
	var root string
	errDone := errors.New("done")
	err := service.RunFunc(t.Context(), files, func(context.Context, *service.Env) (*server.Server, error) { return nil, errDone },
		service.WithConfig(service.DefaultConfig()),
		service.WithFlags(func(fs *flag.FlagSet) { fs.StringVar(&root, "root", ".", "") }))
	require.ErrorIs(t, err, errDone)
	assert.Equal(t, ".", root)
}
