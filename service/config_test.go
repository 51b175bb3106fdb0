package service_test

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/service"
)

var update = flag.Bool("update", false, "write the golden files")

// withoutStart runs the service with arguments and variables with which it must not start.
func withoutStart(t *testing.T, args []string, env map[string]string, opts ...service.Option) (stdout string, err error) {
	t.Helper()
	srv, _ := newGated(t, false)
	srv.AddHook("start", func(context.Context) error {
		t.Error("the server was started")
		return context.Canceled
	}, nil)
	var out bytes.Buffer
	err = service.Run(t.Context(), srv, append([]service.Option{
		service.WithCommand("testing serve"), service.WithArgs(args), service.WithStdout(&out),
		service.WithGetenv(func(name string) string { return env[name] }),
	}, opts...)...)
	return out.String(), err
}

func TestHelp(t *testing.T) {
	extra := service.WithFlags(func(fs *flag.FlagSet) { fs.String("root", ".", "`folder` to search") })
	help, err := withoutStart(t, []string{"--help"}, map[string]string{"VITRINE_PATH": "/changed"}, extra)
	require.NoError(t, err)
	golden := filepath.Join("testdata", "help.txt")
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(help), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	assert.Equal(t, string(want), help, "go test ./service -update writes the golden file")
	for line := range strings.Lines(help) {
		assert.LessOrEqual(t, len(line), 101, line)
	}
}

func TestVersion(t *testing.T) {
	text, err := withoutStart(t, []string{"--version"}, nil)
	require.NoError(t, err)
	assert.Contains(t, text, "testing 1.2.3")
	assert.Contains(t, text, "go1.")
}

func TestEveryMistakeIsReportedAtOnce(t *testing.T) {
	for _, c := range []struct {
		name string
		args string
		env  map[string]string
		want []string
	}{
		{name: "flags and variables", args: "--drain-timeout=5 --path mcp --h2c=perhaps",
			env: map[string]string{"VITRINE_ADDR": "8080", "VITRINE_LOG_LEVEL": "loud"},
			want: []string{
				`invalid value "5" for flag -drain-timeout: want a time such as`,
				`invalid value "mcp" for flag -path: want a path that begins with /`,
				`invalid boolean value "perhaps" for -h2c: want true or false`,
				`invalid value "8080" for VITRINE_ADDR: want host:port`,
				`invalid value "loud" for VITRINE_LOG_LEVEL: want debug, info, warn or error`,
				`testing serve --help`,
			}},
		{name: "unknown flag", args: "--port 8080", want: []string{"-port"}},
		{name: "argument", args: "--path=/x now", want: []string{`unexpected argument "now"`}},
		{name: "number", args: "--max-header-bytes=0", want: []string{"positive whole number"}},
		{name: "negative time", args: "--idle-timeout=-1s", want: []string{"want a time"}},
		{name: "format", args: "--log-format=xml", want: []string{"want text or json"}},
		{name: "header names", args: "--allowed-headers=X-A,X:B", want: []string{`"X-A,X:B" for flag -allowed-headers: want names of headers`}},
		{name: "admin address", args: "--admin-addr=9464", want: []string{"or off"}},
		{name: "program's own flag", env: map[string]string{"VITRINE_DEPTH": "deep"}, want: []string{`"deep" for VITRINE_DEPTH`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := withoutStart(t, strings.Fields(c.args), c.env,
				service.WithFlags(func(fs *flag.FlagSet) { fs.Int("depth", 1, "") }))
			require.Error(t, err)
			for _, want := range c.want {
				assert.ErrorContains(t, err, want)
			}
		})
	}
}

func TestFlagsWinOverTheEnvironment(t *testing.T) {
	srv, _ := newGated(t, false)
	var one, two string
	var depth int
	env := map[string]string{"VITRINE_PATH": "/env", "VITRINE_ONE": "env", "VITRINE_TWO": "env", "VITRINE_DEPTH": "",
		"VITRINE_ADDR": "127.0.0.1:0", "VITRINE_ADMIN_ADDR": "off"}
	srv.AddHook("start", func(context.Context) error {
		assert.Equal(t, "env flag 7", one+" "+two+" "+string(rune('0'+depth)), "known when the hooks run")
		return nil
	}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	err := service.Run(ctx, srv, service.WithArgs([]string{"--two", "flag"}), service.WithStderr(&syncBuffer{}),
		service.WithGetenv(func(name string) string { return env[name] }),
		service.WithFlags(func(fs *flag.FlagSet) {
			fs.StringVar(&one, "one", "default", "")
			fs.StringVar(&two, "two", "default", "")
			fs.IntVar(&depth, "depth", 7, "")
		}),
		service.WithListening(func(e service.Endpoints) {
			assert.True(t, strings.HasSuffix(e.MCP, "/env"), e.MCP)
			assert.Empty(t, e.Admin)
			cancel()
		}))
	require.NoError(t, err)
}

func TestConfigInGo(t *testing.T) {
	srv, _ := newGated(t, false)
	cfg := service.DefaultConfig()
	cfg.Addr, cfg.AdminAddr = "127.0.0.1:0", ""
	ctx, cancel := context.WithCancel(t.Context())
	require.NoError(t, service.Run(ctx, srv, service.WithConfig(cfg), service.WithStderr(&syncBuffer{}),
		service.WithListening(func(service.Endpoints) { cancel() })))

	cfg.Path, cfg.DrainTimeout, cfg.AllowedHeaders = "mcp", -time.Second, []string{"X Tenant"}
	err := service.Run(t.Context(), srv, service.WithConfig(cfg))
	assert.ErrorContains(t, err, `"mcp" for path`)
	assert.ErrorContains(t, err, `"-1s" for drain-timeout`)
	assert.ErrorContains(t, err, `"X Tenant" for allowed-headers`)
}
