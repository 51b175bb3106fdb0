//go:build unix

package service

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/audit"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
)

// A slowSink is a sink of the audit whose end waits.
type slowSink struct{ began, goOn chan struct{} }

func (slowSink) Name() string { return "slow" }

func (slowSink) Write(_ context.Context, entries []audit.Entry) (int, error) {
	return len(entries), nil
}

func (s slowSink) Close() error {
	close(s.began)
	<-s.goOn
	return nil
}

// A signal is watched for until the audit is closed. Otherwise it kills the process before the last
// records are written.
func TestSignalsAreWatchedUntilTheAuditIsClosed(t *testing.T) {
	sink := slowSink{make(chan struct{}), make(chan struct{})}
	goOn := sync.OnceFunc(func() { close(sink.goOn) })
	log, err := audit.New(audit.Config{Sinks: []audit.Sink{sink}})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	var stderr syncLog
	ended := make(chan error, 1)
	cfg := DefaultConfig()
	cfg.Addr, cfg.AdminAddr, cfg.FlushTimeout = "127.0.0.1:0", off, time.Hour
	go func() {
		ended <- RunFunc(ctx, mcp.Implementation{Name: "testing", Version: "1"}, func(_ context.Context, env *Env) (*server.Server, error) {
			env.access.audit = log
			return env.NewServer()
		}, WithConfig(cfg), WithStderr(&stderr), WithListening(func(Endpoints) { stop() }))
	}()
	t.Cleanup(goOn)
	// The test itself takes the signal, too, so that it survives where the service does not.
	delivered := make(chan os.Signal, 1)
	signal.Notify(delivered, syscall.SIGTERM)
	defer signal.Stop(delivered)

	<-sink.began
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGTERM))
	<-delivered
	require.Eventually(t, func() bool { return stderr.count("drain.hurry") == 1 }, 30*time.Second, time.Millisecond)
	goOn()
	require.NoError(t, <-ended)
}
