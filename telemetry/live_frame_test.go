package telemetry

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
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
