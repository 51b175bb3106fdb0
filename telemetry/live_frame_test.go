package telemetry

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// The numbers of sessions are of all sessions, and not of those in the frame.
func TestFramesCountTheSessionsThatTheyLeaveOut(t *testing.T) {
	tel, err := New()
	require.NoError(t, err)
	src := &fixedSource{}
	for i := range 2 * liveRows {
		info := Info{Session: fmt.Sprint(i), Transport: "http"}
		if i >= liveRows+10 {
			info.Transport = "stdio"
		}
		src.Sessions = append(src.Sessions, SessionState{Origin: &holder{info: info}, Streaming: i%4 != 0})
	}
	tel.AddSource(src)
	f := newFrameMaker(tel).next()
	require.Len(t, f.Sessions.Rows, liveRows)
	require.Equal(t, liveRows, f.Sessions.LeftOut)
	require.Equal(t, map[string]int{"http": liveRows + 10, "stdio": liveRows - 10}, f.SessionsByTransport)
	require.Equal(t, 2*liveRows*3/4, f.SessionsStreaming)
}

// A tool with errors is in the frame, however seldom it is called. The order is that of the calls all the same.
func TestFramesLeaveOutToolsWithoutErrorsFirst(t *testing.T) {
	r := newRig(t, rigConfig{})
	serve := func(name string, times int, err error) {
		r.tools[name] = func(context.Context, *session.Request) (mcp.Result, error) { return &mcp.CallToolResult{}, err }
		for range times {
			r.post(call(name), &sink{})
		}
	}
	for i := range liveRows + 5 {
		serve(fmt.Sprintf("fine%02d", i), 2, nil)
	}
	serve("broken", 1, errPrivate)
	serve("busy", 3, nil)
	f := newFrameMaker(r.tel).next()
	require.Len(t, f.Tools.Rows, liveRows)
	require.Equal(t, 7, f.Tools.LeftOut)
	require.Equal(t, "busy", f.Tools.Rows[0].Tool)
	require.Equal(t, "fine00", f.Tools.Rows[1].Tool)
	require.Equal(t, "broken", f.Tools.Rows[liveRows-1].Tool)
}
