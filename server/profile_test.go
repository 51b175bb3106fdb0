package server_test

import (
	"bytes"
	"context"
	"runtime/pprof"
	"runtime/trace"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/needs"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server"
)

// labelsAt returns the labels that the goroutine profile shows of the goroutines with a
// function on their stack, one entry for each kind of stack. Without labels it is "".
func labelsAt(t *testing.T, function string) (labels []string) {
	t.Helper()
	var profile bytes.Buffer
	require.NoError(t, pprof.Lookup("goroutine").WriteTo(&profile, 1))
	for _, stack := range strings.Split(profile.String(), "\n\n") {
		if !strings.Contains(stack, function+"+") {
			continue
		}
		_, text, _ := strings.Cut(stack, "# labels: ")
		text, _, _ = strings.Cut(text, "\n")
		labels = append(labels, text)
	}
	return labels
}

// A holder is a middleware that holds every request until it is released, with a goroutine
// of its own that does the same.
type holder struct{ held, release chan struct{} }

func newHolder() *holder { return &holder{make(chan struct{}), make(chan struct{})} }

func (h *holder) middleware(next middleware.Handler) middleware.Handler {
	return func(ctx context.Context, req *middleware.Request) (mcp.Result, error) {
		h.hold()
		return next(ctx, req)
	}
}

func (h *holder) hold() {
	nested := make(chan struct{})
	go h.nested(nested)
	<-nested
	h.held <- struct{}{}
	<-h.release
	nested <- struct{}{}
}

func (h *holder) nested(told chan struct{}) {
	told <- struct{}{}
	<-told
}

const (
	functionHold   = "server_test.(*holder).hold"
	functionNested = "server_test.(*holder).nested"
	functionJob    = "server_test.addJobAs.func1"
)

// While a request is served, the goroutine profile has its labels. The next request on the same
// connection has other labels.
func TestGoroutinesAreLabelled(t *testing.T) {
	h := newHolder()
	srv := newServer(t, server.WithMiddleware(h.middleware))
	server.AddTool(srv, server.Tool{Name: "hang"}, text("hello"))
	server.AddPrompt(srv, server.Prompt{Name: "ask"}, say("hello"))
	p := dial(t, srv)
	for _, tc := range []struct{ method, params, want string }{
		{"tools/call", call("hang", `{}`), `{"mcp.method":"tools/call", "tool":"hang"}`},
		{"prompts/get", `"name":"ask"`, `{"mcp.method":"prompts/get", "tool":"ask"}`},
		{"tools/list", "", `{"mcp.method":"tools/list"}`},
		{"tools/call", call("unregistered", `{}`), `{"mcp.method":"tools/call"}`},
		{"no/such", "", `{"mcp.method":"_OTHER"}`},
	} {
		p.send(modern(1, tc.method, tc.params))
		<-h.held
		require.Equal(t, []string{tc.want}, labelsAt(t, functionHold), tc.method)
		require.Equal(t, []string{tc.want}, labelsAt(t, functionNested), tc.method)
		h.release <- struct{}{}
		p.recv()
	}
	require.Eventually(t, func() bool { return labelsAt(t, functionHold) == nil && labelsAt(t, functionNested) == nil },
		patience, time.Millisecond)
	for _, reader := range labelsAt(t, "server.(*Server).ServePipe") {
		require.Empty(t, reader, "the connection's own goroutines belong to no request")
	}
	require.NotEmpty(t, labelsAt(t, "server.(*Server).ServePipe"))
}

// patience is for what must happen; nothing is asserted about how fast it does.
const patience = 30 * time.Second

// Labels that the program has set around the server are kept.
func TestLabelsOfTheProgramAreKept(t *testing.T) {
	h := newHolder()
	srv := newServer(t, server.WithMiddleware(h.middleware))
	server.AddTool(srv, server.Tool{Name: "hang"}, text("hello"))
	p := dialContext(t, pprof.WithLabels(t.Context(), pprof.Labels("team", "search")), srv)
	p.send(modern(1, "tools/call", call("hang", `{}`)))
	<-h.held
	require.Equal(t, []string{`{"mcp.method":"tools/call", "team":"search", "tool":"hang"}`},
		labelsAt(t, functionHold))
	h.release <- struct{}{}
	p.recv()
}

// A handler that goes on as a task keeps its labels.
func TestTasksKeepTheirLabels(t *testing.T) {
	srv := newTaskServer(t)
	jobs := addJob(srv, "work", false, server.TaskOptions{})
	c := connectTasks(t, srv)
	task, err := c.StartTask(t.Context(), "work", nil)
	require.NoError(t, err)
	j := <-jobs
	require.NoError(t, j.detach)
	const want = `{"mcp.method":"tools/call", "tool":"work"}`
	require.Eventually(t, func() bool { return len(labelsAt(t, functionJob)) == 1 }, patience, time.Millisecond)
	require.Equal(t, []string{want}, labelsAt(t, functionJob))
	value, _ := pprof.Label(j.ctx, "tool")
	require.Equal(t, "work", value)
	j.finish("done")
	_, err = task.Result(t.Context())
	require.NoError(t, err)
}

// A trace of the runtime shows the goroutine of a handler that may become a task in the task of
// its request.
func TestTracesShowDetachableHandlers(t *testing.T) {
	if trace.IsEnabled() {
		needs.Skip(t, "traces of handlers", "there is a trace already")
	}
	srv := newTaskServer(t)
	jobs := addJob(srv, "work", false, server.TaskOptions{})
	c := connectTasks(t, srv)
	var data bytes.Buffer
	require.NoError(t, trace.Start(&data))
	task, err := c.StartTask(t.Context(), "work", nil)
	if err == nil {
		(<-jobs).finish("done")
		_, err = task.Result(t.Context())
	}
	trace.Stop()
	require.NoError(t, err)
	for _, name := range []string{"tools/call work", "detachable handler"} {
		require.True(t, bytes.Contains(data.Bytes(), []byte(name)), name)
	}
}
