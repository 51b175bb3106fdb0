package adapttest

import (
	"bufio"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/stretchr/testify/require"
)

// A Frame is a frame for the console.
type Frame struct {
	Requests struct{ Rows []Request }
	Traces   struct{ Rows []Trace }
}

// Frame reads the first frame of /debug/live.
func (r *Rig) Frame() (f Frame) {
	r.t.Helper()
	server := httptest.NewServer(r.LiveHandler())
	defer server.Close()
	defer http.DefaultClient.CloseIdleConnections()
	resp, err := http.Get(server.URL)
	require.NoError(r.t, err)
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			require.NoError(r.t, json.Unmarshal([]byte(data), &f), data)
			return f
		}
	}
	require.FailNow(r.t, "there is no frame")
	return f
}
