package service

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
)

func TestContainerMemory(t *testing.T) {
	files := func(pairs ...string) fstest.MapFS {
		m := fstest.MapFS{}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = &fstest.MapFile{Data: []byte(pairs[i+1])}
		}
		return m
	}
	for name, tt := range map[string]struct {
		files fstest.MapFS
		want  int
	}{
		"no control groups": {files(), 0},
		"version 2 in a container": {files("proc/self/cgroup", "0::/\n",
			"sys/fs/cgroup/memory.max", "536870912\n"), 512 << 20},
		"version 2, unit of systemd": {files("proc/self/cgroup", "0::/system.slice/vitrine.service\n",
			"sys/fs/cgroup/system.slice/vitrine.service/memory.max", "1073741824\n",
			"sys/fs/cgroup/system.slice/memory.max", "max\n"), 1 << 30},
		"version 2, the group above allows less": {files("proc/self/cgroup", "0::/a/b\n",
			"sys/fs/cgroup/a/b/memory.max", "1073741824\n", "sys/fs/cgroup/a/memory.max", "1048576\n"), 1 << 20},
		"version 2, no limit": {files("proc/self/cgroup", "0::/\n", "sys/fs/cgroup/memory.max", "max\n"), 0},
		"version 1 in a container": {files("proc/self/cgroup", "9:memory:/docker/abc\n0::/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes", "268435456\n"), 256 << 20},
		"version 1, with other controllers": {files("proc/self/cgroup", "4:cpu,memory:/x\n",
			"sys/fs/cgroup/memory/x/memory.limit_in_bytes", "268435456\n"), 256 << 20},
		"version 1, no limit": {files("proc/self/cgroup", "4:memory:/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"), 0},
		"nonsense": {files("proc/self/cgroup", "\n::\nmemory\n0::/../..\n", "sys/fs/cgroup/memory.max", "much\n"), 0},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tt.want, containerMemory(tt.files)) })
	}
}

// The limits follow from the container unless the operator has said how much memory there is.
func TestMemoryFollowsFromContainer(t *testing.T) {
	require.Equal(t, 768<<20, withMemory(server.Limits{}, 1<<30).MaxMemory)
	require.Equal(t, 300<<20, withMemory(server.Limits{MaxMemory: 300 << 20}, 1<<30).MaxMemory)
	require.Zero(t, withMemory(server.Limits{}, 0).MaxMemory)
}

// A container that is too small for the least limits gets these, and not the defaults.
func TestSmallContainerGetsTheLeastLimits(t *testing.T) {
	least := limits.Limits{}.LeastMemory()
	for _, mib := range []int{1, 64, 128, 200, 228} {
		l := withMemory(server.Limits{}, mib<<20)
		require.Equal(t, least, l.MaxMemory, "%d MiB", mib)
		require.NoError(t, l.Check())
	}
	require.Equal(t, 230<<20*3/4, withMemory(server.Limits{}, 230<<20).MaxMemory)
	fewer := server.Limits{MaxFrameBytes: 8 << 10, MaxSessions: 3}
	require.Equal(t, 96<<20, withMemory(fewer, 128<<20).MaxMemory, "smaller limits of the operator fit")
}

// Limits that are set and do not fit into the container are an error, which names them and where
// max_memory comes from.
func TestLimitsThatDoNotFitIntoTheContainerAreRefused(t *testing.T) {
	for container, set := range map[int]server.Limits{
		200 << 20: {MaxConnections: 16_384},
		512 << 20: {MaxConnections: 16_384},
		600 << 20: {MaxConnections: 16_384, MaxFrameBytes: 4 << 20},
	} {
		e := &Env{configured: Config{Limits: set}, container: container}
		e.Info.Name, e.Info.Version = "large", "1"
		_, err := e.NewServer()
		require.ErrorContains(t, err, "limit max_memory is")
		require.ErrorContains(t, err, "raise it to")
		require.ErrorContains(t, err, "max_connections (16384)", "the limit that was set")
		require.ErrorContains(t, err, fmt.Sprintf("the container may use %d bytes", container))
	}
	e := &Env{configured: Config{Limits: server.Limits{MaxMemory: 96 << 20}}, container: 128 << 20}
	e.Info.Name, e.Info.Version = "large", "1"
	_, err := e.NewServer()
	require.ErrorContains(t, err, "limit max_memory is 100663296")
	require.NotContains(t, err.Error(), "the container may use", "it was set")
}

// The memory limit of the Go runtime is max_memory, and never more than three quarters of a
// container that is smaller than that.
func TestGoMemoryLimit(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	defer func(before *slog.Logger) { slog.SetDefault(before) }(slog.Default())
	for name, tt := range map[string]struct {
		container, memory int
		environment       string // GOMEMLIMIT
		want              int64
		warned            bool
	}{
		"container":                   {1 << 30, 0, "", 768 << 20, false},
		"container and max_memory":    {1 << 30, 300 << 20, "", 300 << 20, false},
		"most of the container":       {1 << 30, 960 << 20, "", 960 << 20, false},
		"more than the container has": {1 << 30, 2 << 30, "", 768 << 20, true},
		"small container":             {128 << 20, 0, "", 96 << 20, true},
		"GOMEMLIMIT":                  {128 << 20, 0, "100MiB", before, true},
		"max_memory alone":            {0, 300 << 20, "", 300 << 20, false},
		"neither":                     {0, 0, "", before, false},
	} {
		t.Run(name, func(t *testing.T) {
			debug.SetMemoryLimit(before)
			var log syncLog
			slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
			e := &Env{configured: Config{Limits: server.Limits{MaxMemory: tt.memory}}, container: tt.container}
			e.Info.Name, e.Info.Version = "small", "1"
			srv, err := e.NewServer()
			require.NoError(t, err)
			o := newOptions(nil)
			o.getenv = func(string) string { return tt.environment }
			(&process{srv: srv, options: o, container: tt.container}).setMemoryLimit()
			require.Equal(t, tt.want, debug.SetMemoryLimit(-1))
			require.Equal(t, tt.warned, log.count("msg=memory.limit") == 1, log.String())
			if tt.warned {
				require.Contains(t, log.String(), fmt.Sprintf("max_memory=%d container_bytes=%d", srv.Limits().MaxMemory, tt.container))
			}
		})
	}
}

// The limits leave room for the audit, tokens, signals and the flight recorder, beside what the operator reserves.
func TestMemoryIsReserved(t *testing.T) {
	defer func(before *slog.Logger) { slog.SetDefault(before) }(slog.Default())
	key := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(key, []byte(base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("k"), 32))), 0o600))
	everything := []string{
		"--audit-file", filepath.Join(t.TempDir(), "audit"), "--oauth-issuer", "https://issuer.example", "--oauth-resource", "https://mcp.example/mcp",
		"--store", "redis://127.0.0.1:1", "--state-keys-file", key, "--flight-recorder", "--flight-bytes", "1048576", "--flight-keep", "3",
	}
	const all = 32<<20 + 4096*640 + 1<<20 + 4*2<<10 + 16<<20 + 10_000*256 + 512<<10 + 1024*20<<10 + 7<<20
	flight := []string{"--flight-recorder", "--flight-bytes", "65536", "--flight-keep", "1"}
	memory := func(bytes int, more ...string) []string {
		return append([]string{"--max-memory", fmt.Sprint(bytes)}, more...)
	}
	least := limits.Limits{}.LeastMemory()
	for name, tt := range map[string]struct {
		args        []string
		needs, want int
	}{
		"nothing":                  {memory(1 << 30), 0, 0},
		"everything":               {memory(1<<30, everything...), all, all},
		"more":                     {memory(1<<30, append(everything, "--reserved-bytes", "77")...), 77 + all, 77 + all},
		"without max_memory":       {everything, all, all},
		"as many MiB as fit":       {memory(200<<20, everything...), all, 11 << 20},
		"none fits":                {memory(least, everything...), all, 0},
		"less than a MiB":          {memory(1<<30, flight...), 320 << 10, 320 << 10},
		"less than a MiB, no room": {memory(least, append(flight, "--flight-keep", "11")...), 960 << 10, 0},
		"no admin listener":        {memory(1<<30, append(flight, "--admin-addr", "off")...), 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOptions([]Option{WithArgs(tt.args)})
			cfg, _, err := o.load(mcp.Implementation{Name: "reserved", Version: "1"})
			require.NoError(t, err)
			a, err := openAccess(&cfg, "", false)
			require.NoError(t, err)
			defer a.closeInTime()
			e := &Env{Info: mcp.Implementation{Name: "reserved", Version: "1"}, configured: cfg, access: a}
			srv, err := e.NewServer()
			require.NoError(t, err)
			l := limits.Limits(srv.Limits())
			require.Equal(t, tt.want, l.ReservedBytes)
			if l.MaxMemory != 0 {
				require.LessOrEqual(t, l.Memory(), l.MaxMemory/4*3)
			}
			require.NoError(t, e.configure(srv), "it may be called again")
			require.Equal(t, l, limits.Limits(srv.Limits()))

			var log syncLog
			slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
			o.getenv = func(string) string { return "set" } // GOMEMLIMIT
			(&process{srv: srv, options: o, cfg: cfg, access: a, own: e.own}).setMemoryLimit()
			short := l.MaxMemory != 0 && tt.want < tt.needs
			require.Equal(t, short, log.count("msg=memory.reserved") == 1, log.String())
		})
	}
}

// What a program itself reserves stays, and what the configuration needs comes to it once.
func TestProgramsReserveMemory(t *testing.T) {
	cfg := Config{Flight: FlightConfig{On: true, Bytes: 1 << 20, Keep: 1}, AdminAddr: "127.0.0.1:0"}
	e := &Env{Info: mcp.Implementation{Name: "reserved", Version: "1"}, configured: cfg, container: 1 << 30}
	srv, err := e.NewServer(server.WithLimits(server.Limits{ReservedBytes: 5 << 20}))
	require.NoError(t, err)
	for range 2 {
		require.Equal(t, 10<<20, srv.Limits().ReservedBytes)
		require.NoError(t, e.configure(srv))
	}
	require.NoError(t, srv.SetLimits(server.Limits{ReservedBytes: 6 << 20}))
	require.NoError(t, e.configure(srv))
	require.Equal(t, 11<<20, srv.Limits().ReservedBytes)
}
