package adapt_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/vitrine-mcp/vitrine/internal/adapt"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func begin(a *adapt.Adapter, ctx context.Context, how adapt.Cancels) *adapt.Call {
	c := a.NewCall(ctx, nil, how)
	c.Begin(&middleware.Request{Method: "tools/call", ID: mcp.IntID(1)}, adapt.Params{}, "session", 0)
	return c
}

// The cause of a cancellation by an SDK is the one that the adapter has recorded.
func TestCause(t *testing.T) {
	closed := func() *mcp.CancelError { return &mcp.CancelError{Cause: mcp.CauseTransportClose} }
	for name, c := range map[string]struct {
		cause error // of the SDK
		how   adapt.Cancels
		want  mcp.Cause
	}{
		"a cause of ours":              {mcp.ErrSessionDeleted, adapt.Cancels{}, mcp.CauseSessionDelete},
		"a deadline":                   {context.DeadlineExceeded, adapt.Cancels{}, mcp.CauseDeadline},
		"the end of what is read":      {io.EOF, adapt.Cancels{}, mcp.CauseTransportClose},
		"another error":                {errors.New("reset by peer"), adapt.Cancels{}, mcp.CauseTransportError},
		"none, of an SDK that has one": {context.Canceled, adapt.Cancels{Bare: mcp.CauseClientCancel}, mcp.CauseClientCancel},
		"none, and the connection is closed": {
			context.Canceled, adapt.Cancels{Bare: mcp.CauseClientCancel, Connection: closed}, mcp.CauseTransportClose,
		},
		"none at all": {context.Canceled, adapt.Cancels{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			call := begin(adapt.New(telemetry.Disabled()), ctx, c.how)
			cancel(c.cause)
			<-call.Done()
			got, _ := mcp.CauseOf(call)
			require.Equal(t, c.want, got)
			call.End(telemetry.Outcome{})
		})
	}
}

// The client's reason is cut, and has no effect until the SDK cancels.
func TestCancelling(t *testing.T) {
	a := adapt.New(telemetry.Disabled())
	ctx, cancel := context.WithCancel(t.Context())
	call := begin(a, ctx, adapt.Cancels{})
	a.Cancelling("another session", mcp.IntID(1), "forged")
	a.Cancelling("session", mcp.IntID(2), "another request")
	a.Notice("session", []byte(`{"method":"notifications/cancelled","params":{"requestId":1,"reason":"`+strings.Repeat("x", 1000)+`"}}`))
	require.NoError(t, call.Err(), "it is up to the SDK")
	cancel()
	<-call.Done()
	var got *mcp.CancelError
	require.ErrorAs(t, context.Cause(call), &got)
	require.Equal(t, mcp.CauseClientCancel, got.Cause)
	require.Equal(t, strings.Repeat("x", 256), got.Detail)
	call.End(telemetry.Outcome{})
}

// A handler that ignores its cancellation is abandoned after a second.
func TestShutdownGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := adapt.New(telemetry.Disabled())
		call := begin(a, t.Context(), adapt.Cancels{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		require.EqualError(t, a.Shutdown(ctx), "1 handlers still run, 1s after they were cancelled")
		require.Equal(t, time.Minute+time.Second, time.Since(start))
		require.ErrorIs(t, context.Cause(call), mcp.ErrServerShutdown)
		call.End(telemetry.Outcome{})
	})
}

// Middlewares and the containment of panics need no telemetry.
func TestServeWithoutTelemetry(t *testing.T) {
	type key struct{}
	a := adapt.New(telemetry.Disabled(), func(next middleware.Handler) middleware.Handler {
		return func(ctx context.Context, req *middleware.Request) (mcp.Result, error) {
			return next(context.WithValue(ctx, key{}, req.Method), req)
		}
	})
	call := begin(a, t.Context(), adapt.Cancels{})
	_, err := call.Serve(call, func(ctx context.Context, _ *middleware.Request) (mcp.Result, error) {
		panic(ctx.Value(key{}))
	})
	require.Equal(t, adapt.ErrPanicked, err)
	call.End(telemetry.Outcome{})
	require.NoError(t, a.Shutdown(t.Context()))
}

// A body that is read ahead reaches the next handler with its error.
func TestHTTPReadsAhead(t *testing.T) {
	var got []byte
	var failure error
	var x *adapt.Exchange
	handler := adapt.New(telemetry.Disabled()).HTTP(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		got, failure = io.ReadAll(req.Body)
		x = adapt.ExchangeOf(req.Context())
	}))
	post := func(body io.Reader) {
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", body))
	}
	batch := `[{"id":1,"method":"a","params":{"x":1}},{"id":2,"method":"b"},{"id":3,"method":"b"},{"method":"c"}]`
	post(strings.NewReader(batch))
	require.Equal(t, batch, string(got))
	raw, ok := x.Take("a")
	require.True(t, ok)
	require.Equal(t, "1", raw.ID.String())
	require.Equal(t, `{"x":1}`, string(raw.Params))
	for _, method := range []string{"b", "c", "d"} { // several; a notification; none
		_, ok = x.Take(method)
		require.False(t, ok, method)
	}

	large := `{"id":"x","method":"a","params":"` + strings.Repeat("x", 2<<20) + `"}`
	post(strings.NewReader(large))
	require.Equal(t, large, string(got))
	_, ok = x.Take("a")
	require.False(t, ok, "it is not read ahead")

	broken := errors.New("broken")
	post(io.MultiReader(strings.NewReader("{"), iotestErr{broken}))
	require.Equal(t, "{", string(got))
	require.ErrorIs(t, failure, broken)
}

type iotestErr struct{ err error }

// Read implements [io.Reader].
func (r iotestErr) Read([]byte) (int, error) { return 0, r.err }

// A client that disconnects after the answer does not cancel the request.
func TestGone(t *testing.T) {
	var x *adapt.Exchange
	a := adapt.New(telemetry.Disabled())
	ctx, hangUp := context.WithCancel(t.Context())
	serve := func(during func()) {
		a.HTTP(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
			x = adapt.ExchangeOf(req.Context())
			during()
		})).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", nil).WithContext(ctx))
	}
	serve(func() { require.False(t, x.Gone()) })
	hangUp()
	require.False(t, x.Gone(), "it was answered")

	ctx, hangUp = context.WithCancel(t.Context())
	serve(func() {
		hangUp()
		require.True(t, x.Gone())
	})
	require.True(t, x.Gone(), "and it stays so")
	require.False(t, (*adapt.Exchange)(nil).Gone())
}

// A result that no middleware changes is not encoded again.
func TestConverted(t *testing.T) {
	type foreign struct {
		Content []any  `json:"content"`
		Extra   string `json:"extra"`
	}
	c := adapt.Convert("tools/call", foreign{Content: []any{map[string]string{"type": "text", "text": "hi"}}, Extra: "x"})
	tool := c.Result.(*mcp.CallToolResult)
	require.Equal(t, "hi", tool.Content[0].(*mcp.TextContent).Text)
	changed, err := c.Changed(tool, true)
	require.NoError(t, err)
	require.Nil(t, changed)
	tool.IsError = true
	changed, err = c.Changed(tool, false)
	require.NoError(t, err)
	require.JSONEq(t, `{"content":[{"type":"text","text":"hi"}],"isError":true}`, string(changed))
	changed, err = c.Changed(tool, true)
	require.NoError(t, err)
	require.JSONEq(t, `{"resultType":"complete","content":[{"type":"text","text":"hi"}],"isError":true}`, string(changed))
	_, err = c.Changed(nil, true)
	require.Error(t, err)
	_, err = c.Changed((*mcp.CallToolResult)(nil), true)
	require.Error(t, err, "it is null")

	c = adapt.Convert("tools/call", map[string]any{"resultType": "input_required", "requestState": "s"})
	asks := c.Result.(*mcp.InputRequiredResult)
	require.Equal(t, "s", asks.RequestState)
	asks.RequestState = ""
	changed, err = c.Changed(asks, true)
	require.NoError(t, err)
	require.JSONEq(t, `{"resultType":"input_required"}`, string(changed))

	c = adapt.Convert("made/up", map[string]any{"x": 1})
	changed, err = c.Changed(c.Result, true)
	require.NoError(t, err)
	require.Nil(t, changed)
	_, err = c.Changed(&mcp.EmptyResult{}, true)
	require.NoError(t, err, "it can be encoded; the adapter has to know the method")
}
