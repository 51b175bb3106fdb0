package telemetry

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/session"
)

// What is remembered of clients is what the session room reads, however many there are.
func TestClientNames(t *testing.T) {
	names := newClientNames()
	infos := []string{
		"", "{}", "null", `{"name":1}`, `{"name":"a\u0007b","version":"` + strings.Repeat("v", 100) + `"}`,
		`{"name":"` + strings.Repeat("n", maxKnownInfo) + `"}`,
	}
	for i := range 40 { // more than there is room for
		infos = append(infos, fmt.Sprintf(`{"name":"client %d","version":"1.%d"}`, i, i))
	}
	for range 3 {
		for _, info := range infos {
			in := call("echo")
			in.Meta.ClientInfo = []byte(info)
			name, version := session.ClientOf(in, nil)
			for range 2 {
				known, knownVersion := names.of(in.Meta.ClientInfo)
				require.Equal(t, name, known)
				require.Equal(t, version, knownVersion)
			}
		}
	}
	large := newClientNames()
	large.of([]byte(infos[5]))
	for i := range large.known {
		require.Nil(t, large.known[i].Load(), "too much is remembered of one client")
	}
	info := call("echo").Meta.ClientInfo
	require.Zero(t, testing.AllocsPerRun(100, func() { names.of(info) }))
	first, _ := names.of(info)
	copy(info, `{"name":"TESTER"`) // the frame is somebody else's now
	again, _ := names.of(info)
	require.Equal(t, "tester", first)
	require.Equal(t, "TESTER", again)
}
