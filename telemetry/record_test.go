package telemetry

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
)

func TestRecordError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigConfig{})
		r.tools["t"] = func(_ context.Context, q *session.Request) (mcp.Result, error) {
			TestBridge.Error(q, errPrivate)
			return nil, errPrivate
		}
		r.post(call("t"), &sink{})
		require.Len(t, r.span().Events(), 1)
		require.Equal(t, errPrivate.Error(), eventsOf(r.span())["exception"]["exception.message"])
	})
}

// TestHiddenErrorsAreCutAndEscaped: what a marshaler says of a result is on the span, even
// if it is of a type that callers would see; so is what breaks a schema.
func TestHiddenErrorsAreCutAndEscaped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigConfig{})
		long := "\x1b[2J" + strings.Repeat("é", 1000)
		r.tools["t"] = func(_ context.Context, q *session.Request) (mcp.Result, error) {
			TestBridge.Encoding(q, mcp.NewError(mcp.CodeInvalidParams, "%s", long))
			TestBridge.ArgumentsRejected(q, long)
			return nil, errPrivate
		}
		r.post(call("t"), &sink{})
		events := eventsOf(r.span())
		require.Equal(t, "*mcp.Error", events["exception"]["exception.type"])
		for _, c := range []struct {
			text  any
			limit int
		}{
			{events["exception"]["exception.message"], maxURI},
			{events["vitrine.arguments.rejected"]["vitrine.argument.faults"], maxText},
		} {
			text, _ := c.text.(string)
			require.LessOrEqual(t, len(text), c.limit+len("…"))
			require.Greater(t, len(text), c.limit-10)
			require.Contains(t, text, "\ufffd[2J")
			require.True(t, utf8.ValidString(text))
		}
	})
}

// TestRejectedArguments checks that the counter of a tool exists from its first call, so that an
// increase includes the first rejection, and that it has a trace as exemplar.
func TestRejectedArguments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigConfig{})
		rejects := false
		r.tools["t"] = func(_ context.Context, q *session.Request) (mcp.Result, error) {
			TestBridge.Validated(q, time.Millisecond)
			if rejects {
				TestBridge.ArgumentsRejected(q, "/n: must be an integer, got string")
			}
			return &mcp.CallToolResult{IsError: rejects}, nil
		}
		rejected := func() *dto.Metric {
			return find(gather(t, r.tel.Registry()), MetricArgumentsRejected, map[string]string{"tool": "t"})
		}
		require.Nil(t, rejected())
		r.post(call("t"), &sink{})
		require.Zero(t, rejected().GetCounter().GetValue())
		require.Empty(t, eventsOf(r.span()))
		r.spans.Reset()
		rejects = true
		r.post(call("t"), &sink{})
		require.EqualValues(t, 1, rejected().GetCounter().GetValue())
		requireExemplar(t, rejected().GetCounter().GetExemplar(), r.span().SpanContext())
	})
}
