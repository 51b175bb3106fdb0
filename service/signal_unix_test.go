//go:build unix

package service_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	ossignal "os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/vitrine-mcp/vitrine/audit"
	"github.com/vitrine-mcp/vitrine/mcp"
)

func signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	require.NoError(t, syscall.Kill(os.Getpid(), sig))
}

func TestSIGTERMDrains(t *testing.T) {
	srv, g := newGated(t, false)
	r := start(t, srv, "--drain-timeout=1h")
	_, result := r.enter(t, g)
	signal(t, syscall.SIGTERM)
	r.notReady(t)
	close(g.open)
	assert.Equal(t, "opened", (<-result).text())
	require.NoError(t, r.wait(t))
	assert.Contains(t, r.stderr.String(), "terminated")
}

// While the shutdown delay lasts, requests are served; a signal ends it.
func TestShutdownDelay(t *testing.T) {
	srv, _ := newGated(t, false)
	r := start(t, srv, "--shutdown-delay=1h")
	r.stop()
	r.notReady(t)
	assert.Equal(t, "still here", r.call("echo", `{"text":"still here"}`).text())
	signal(t, syscall.SIGINT)
	_ = r.wait(t) // an error if the call was just about to return
}

// A load balancer that does not ask /readyz learns from refusals, also if there is
// nothing to wait for.
func TestRefuseTimeOutlastsAnIdleDrain(t *testing.T) {
	srv, _ := newGated(t, false)
	stopped := make(chan struct{})
	srv.AddHook("stop", nil, func(context.Context) error { close(stopped); return nil })
	r := start(t, srv, "--refuse-time=1h")
	r.stop()
	<-stopped // the drain has ended
	for range 3 {
		refused := r.call("echo", `{"text":""}`)
		require.NoError(t, refused.err, "the listener is still there")
		assert.Equal(t, http.StatusServiceUnavailable, refused.status)
		assert.Equal(t, string(mcp.RejectShuttingDown), refused.Error.Data.Reason)
	}
	signal(t, syscall.SIGTERM)
	require.NoError(t, r.wait(t))
}

// Clients that keep a connection are asked to leave while they are still served.
func TestShutdownDelayEndsKeptConnections(t *testing.T) {
	srv, _ := newGated(t, false)
	r := start(t, srv, "--shutdown-delay=1h")
	kept := &http.Transport{}
	defer kept.CloseIdleConnections()
	r.client = &http.Client{Transport: kept, Timeout: patience}
	closes := func() bool {
		a := r.call("echo", `{"text":"served"}`)
		require.NoError(t, a.err)
		require.Equal(t, "served", a.text())
		return a.close
	}
	assert.False(t, closes())
	r.stop()
	r.notReady(t)
	assert.True(t, closes())
	signal(t, syscall.SIGTERM)
	_ = r.wait(t) // an error if the call was just about to return
}

func TestSecondSignalSkipsAllWaiting(t *testing.T) {
	srv, g := newGated(t, false)
	r := start(t, srv, "--drain-timeout=1h")
	handler, result := r.enter(t, g)
	signal(t, syscall.SIGTERM)
	r.notReady(t)
	signal(t, syscall.SIGTERM)
	<-handler.Done()
	assert.ErrorIs(t, context.Cause(handler), mcp.ErrServerShutdown, "it is not the client that has no patience")
	<-result
	_ = r.wait(t) // an error if the handler was slower than the end
	assert.Contains(t, r.stderr.String(), "drain.hurry")
}

// Nobody scrapes, and somebody is in a hurry.
func TestSecondSignalEndsLinger(t *testing.T) {
	srv, _ := newGated(t, false)
	r := start(t, srv, "--linger-timeout=1h", "--log-format=json")
	kept := &http.Transport{MaxConnsPerHost: 1}
	defer kept.CloseIdleConnections()
	r.client = &http.Client{Transport: kept, Timeout: patience}
	_, _ = r.get(t, "/metrics") // or nobody would be waited for
	_, _ = r.get(t, "/livez")   // over the same connection: the scrape is noted by now
	signal(t, syscall.SIGTERM)
	r.awaitRecord(t, "linger.begin")
	signal(t, syscall.SIGTERM)
	require.NoError(t, r.wait(t))
	ended := r.records(t, "linger.end")
	require.Len(t, ended, 1)
	assert.Contains(t, ended[0], `"scraped":0,"missing":1`)
}

// A connection that was idle all the while is closed when the delay is over, and not used
// for a call that would be refused.
func TestShutdownDelayClosesIdleConnections(t *testing.T) {
	srv, g := newGated(t, false)
	r := start(t, srv, "--shutdown-delay=1ms", "--drain-timeout=10s")
	_, result := r.enter(t, g) // which the drain waits for
	kept, in := r.keep(t)
	r.stop()
	_, err := in.ReadByte()
	assert.ErrorIs(t, err, io.EOF)
	kept.Close()
	assert.NoError(t, r.call("echo", `{"text":""}`).err, "the listener is still there")
	close(g.open)
	<-result
	require.NoError(t, r.wait(t))
}

// When an idle connection is closed, a call may be on its way over it, and its client cannot know
// whether the call has begun. After a refusal the client can call another process.
func TestRefuseTimeLeavesIdleConnections(t *testing.T) {
	srv, _ := newGated(t, false)
	r := start(t, srv, "--shutdown-delay=1ms", "--refuse-time=10s", "--log-format=json")
	kept, in := r.keep(t)
	r.stop()
	r.awaitRecord(t, "drain.refusing")
	resp := r.over(t, kept, in, "/mcp", "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/list\r\nContent-Type: application/json\r\n"+
		"Accept: application/json, text/event-stream\r\n", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{`+
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`)
	assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	assert.True(t, resp.Close)
	signal(t, syscall.SIGTERM)
	require.NoError(t, r.wait(t))
}

// keep opens a connection that is idle: a request was answered over it.
func (r *running) keep(t *testing.T) (kept net.Conn, in *bufio.Reader) {
	t.Helper()
	kept, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(r.MCP, "http://"), "/mcp"))
	require.NoError(t, err)
	t.Cleanup(func() { kept.Close() })
	require.NoError(t, kept.SetDeadline(time.Now().Add(patience)))
	in = bufio.NewReader(kept)
	require.False(t, r.over(t, kept, in, "/nothing", "", "").Close)
	return kept, in
}

// over sends a request over a connection, and reads all of the answer.
func (r *running) over(t *testing.T, conn net.Conn, in *bufio.Reader, path, headers, body string) *http.Response {
	t.Helper()
	_, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\n%sContent-Length: %d\r\n\r\n%s", path, headers, len(body), body)
	require.NoError(t, err)
	resp, err := http.ReadResponse(in, nil)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	return resp
}

// The first signal after a drain that an operator has ordered changes nothing, so that what stops a process
// after it was drained cuts no call. The second one does.
func TestSIGTERMAfterAnOrderedDrain(t *testing.T) {
	srv, g := newGated(t, false)
	r := start(t, srv, "--drain-timeout=1h", "--admin-actions", "--admin-token-file="+adminTokenFile(t))
	_, result := r.enter(t, g)
	status, body := r.act(t, "drain", "{}")
	require.Equal(t, http.StatusOK, status, body)
	r.notReady(t)
	delivered := make(chan os.Signal, 1)
	ossignal.Notify(delivered, syscall.SIGTERM)
	defer ossignal.Stop(delivered)
	signal(t, syscall.SIGTERM)
	<-delivered
	r.notReady(t)
	require.NotContains(t, r.stderr.String(), "drain.hurry")
	signal(t, syscall.SIGTERM)
	require.Eventually(t, func() bool { return strings.Contains(r.stderr.String(), "drain.hurry") }, patience, time.Millisecond)
	require.NotEqual(t, "opened", (<-result).text(), "the second signal cuts it")
	close(g.open)
	_ = r.wait(t) // an error if the call was just about to return
}

// A slowFlush is an exporter of spans whose last export waits.
type slowFlush struct{ began, goOn chan struct{} }

func (slowFlush) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return nil }

func (f slowFlush) Shutdown(context.Context) error {
	close(f.began)
	<-f.goOn
	return nil
}

// A signal during the flush hurries and does not kill the process: the audit still gets the record of
// its end.
func TestSignalDuringTheFlushLeavesTheAuditItsEnd(t *testing.T) {
	dir := t.TempDir()
	file, key := filepath.Join(dir, "audit.jsonl"), filepath.Join(dir, "key")
	require.NoError(t, os.WriteFile(key, []byte(strings.Repeat("0123456789abcdef", 4)), 0o600))
	srv, _ := newGated(t, false)
	flush := slowFlush{make(chan struct{}), make(chan struct{})}
	require.True(t, srv.Telemetry().ExportSpans(flush))
	r := start(t, srv, "--flush-timeout=1h", "--audit-file="+file, "--audit-key-file="+key)
	goOn := sync.OnceFunc(func() { close(flush.goOn) })
	t.Cleanup(goOn)
	// The test itself takes the signal, too, so that it survives where the service does not.
	delivered := make(chan os.Signal, 1)
	ossignal.Notify(delivered, syscall.SIGTERM)
	defer ossignal.Stop(delivered)

	r.stop()
	<-flush.began
	signal(t, syscall.SIGTERM)
	<-delivered
	require.Eventually(t, func() bool { return strings.Contains(r.stderr.String(), "drain.hurry") }, patience, time.Millisecond)
	goOn()
	require.NoError(t, r.wait(t))
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, string(text), `"operation":"`+audit.OperationClose+`"`)
}
