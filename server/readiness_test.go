package server_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// newProbed returns a server with telemetry, its log, and what it has counted of its
// changes of readiness: "state check" and how often.
func newProbed(t *testing.T) (srv *server.Server, log *bytes.Buffer, changes func() map[string]float64) {
	t.Helper()
	registry := prometheus.NewRegistry()
	tel, err := telemetry.New(telemetry.WithRegistry(registry))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tel.Shutdown(context.Background())) })
	log = &bytes.Buffer{}
	srv = newServer(t, server.WithTelemetry(tel), server.WithLogger(slog.New(slog.NewTextHandler(log, nil))))
	return srv, log, func() map[string]float64 {
		families, err := registry.Gather()
		require.NoError(t, err)
		counts := map[string]float64{}
		for _, f := range families {
			if f.GetName() != telemetry.MetricReadinessChanges {
				continue
			}
			for _, m := range f.GetMetric() {
				var words []string
				for _, l := range m.GetLabel() {
					words = append([]string{l.GetValue()}, words...) // state before check
				}
				if n := m.GetCounter().GetValue(); n > 0 {
					counts[strings.TrimSpace(strings.Join(words, " "))] = n
				}
			}
		}
		return counts
	}
}

// changes returns the lines of a log about readiness, without their time and level.
func readinessLines(log *bytes.Buffer) (lines []string) {
	for line := range strings.Lines(log.String()) {
		if _, rest, found := strings.Cut(line, "level="); found && strings.Contains(rest, "readiness.changed") {
			lines = append(lines, strings.TrimSpace(strings.Replace(rest, "msg=readiness.changed ", "", 1)))
		}
	}
	log.Reset()
	return lines
}

// A change of readiness is logged with the failed check and counted. Other probes are not
// logged.
func TestReadinessChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, log, changes := newProbed(t)
		var database, queue error
		srv.AddReadiness("database", func(context.Context) error { return database })
		srv.AddReadiness("queue", func(context.Context) error { return queue })
		require.NoError(t, srv.Start(t.Context()))
		require.Empty(t, readinessLines(log), "nobody has asked the checks")

		probe := func(ready bool) {
			t.Helper()
			require.Equal(t, ready, srv.Ready(t.Context()) == nil)
			time.Sleep(time.Second)
		}
		probe(true)
		probe(true)
		require.Equal(t, []string{"INFO from=unknown to=ready"}, readinessLines(log))
		queue = errors.New("full")
		probe(false)
		require.Equal(t, []string{`WARN from=ready to=not_ready lasted=2s why="queue: full"`}, readinessLines(log))
		queue = errors.New("still full")
		probe(false)
		require.Empty(t, readinessLines(log), "the same check fails")
		database = errors.New("gone")
		probe(false)
		require.Equal(t, []string{`WARN from=not_ready to=not_ready lasted=2s why="database: gone; queue: still full"`}, readinessLines(log))
		database, queue = nil, nil
		probe(true)
		require.Equal(t, []string{"INFO from=not_ready to=ready lasted=1s"}, readinessLines(log))
		require.Equal(t, map[string]float64{"ready": 2, "not_ready queue": 1, "not_ready database": 1}, changes())

		srv.PrepareShutdown()
		srv.PrepareShutdown()
		require.ErrorIs(t, srv.Ready(t.Context()), server.ErrDraining)
		require.NoError(t, srv.Shutdown(t.Context()))
		require.Equal(t, []string{"INFO from=ready to=draining lasted=1s"}, readinessLines(log))
		require.EqualValues(t, 1, changes()["draining"])
	})
}

// A server without checks is ready after Start. Without Start and without probes nothing is
// logged.
func TestReadinessWithoutChecks(t *testing.T) {
	srv, log, changes := newProbed(t)
	require.NoError(t, srv.Start(t.Context()))
	require.Equal(t, []string{"INFO from=unknown to=ready"}, readinessLines(log))
	require.Equal(t, map[string]float64{"ready": 1}, changes())
	require.NoError(t, srv.Shutdown(t.Context()))

	srv, log, changes = newProbed(t)
	require.NoError(t, srv.Shutdown(t.Context()))
	require.Empty(t, readinessLines(log))
	require.Empty(t, changes())
	require.ErrorIs(t, srv.Ready(t.Context()), server.ErrDraining)
}

// Requests are served until Shutdown.
func TestPrepareShutdownServesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(t)
		server.AddTool(srv, server.Tool{Name: "hi"}, text("hello"))
		srv.PrepareShutdown()
		require.ErrorIs(t, srv.Ready(t.Context()), server.ErrDraining)
		require.Contains(t, dial(t, srv).ask(modern(1, "tools/call", call("hi", `{}`))), "hello")
	})
}

// A slow probe does not replace the outcome of a later one.
func TestReadinessOfASlowProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, log, _ := newProbed(t)
		slow := true
		srv.AddReadiness("database", func(context.Context) error {
			if slow {
				slow = false
				time.Sleep(time.Second)
				return errors.New("timeout")
			}
			return nil
		})
		done := make(chan error)
		go func() { done <- srv.Ready(context.Background()) }()
		synctest.Wait()
		require.NoError(t, srv.Ready(t.Context()))
		require.EqualError(t, <-done, "database: timeout", "its caller learns what it has found")
		require.Equal(t, []string{"INFO from=unknown to=ready"}, readinessLines(log))
	})
}

func TestInvalidReadinessChecksPanic(t *testing.T) {
	srv := newServer(t)
	require.Panics(t, func() { srv.AddReadiness("", func(context.Context) error { return nil }) })
	require.Panics(t, func() { srv.AddReadiness("database", nil) })
	require.PanicsWithError(t, `server: readiness check "\xff": the name has a character that cannot be printed`,
		func() { srv.AddReadiness("\xff", func(context.Context) error { return nil }) })
}
