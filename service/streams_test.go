package service_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// An h2Conn is a connection on which a client speaks HTTP/2 without a library, because that would take
// memory in this process too.
type h2Conn struct {
	net.Conn
	t    *testing.T
	next uint32 // the number of the next stream
}

// Types and flags of frames (RFC 9113, section 6).
const (
	h2Data, h2Headers, h2Settings = 0, 1, 4
	h2EndStream, h2EndHeaders     = 1, 4
)

func (r *running) dialH2(t *testing.T) *h2Conn {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(r.MCP, "http://"), "/mcp"))
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
	h := &h2Conn{c, t, 1}
	_, err = io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	require.NoError(t, err)
	h.frame(h2Settings, 0, 0, nil)
	return h
}

func (c *h2Conn) frame(kind, flags byte, stream uint32, payload []byte) {
	c.t.Helper()
	head := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	head = binary.BigEndian.AppendUint32(append(head, flags), stream)
	_, err := c.Write(append(head, payload...))
	require.NoError(c.t, err)
}

// post begins a POST whose body does not come to its end, with so many more header lines.
func (c *h2Conn) post(lines int) {
	c.t.Helper()
	block := []byte{0x83, 0x86}       // :method POST, :scheme http
	add := func(name, value string) { // without an index
		block = append(append(block, 0, byte(len(name))), name...)
		block = append(append(block, byte(len(value))), value...)
	}
	add(":path", "/mcp")
	add(":authority", c.RemoteAddr().String())
	add("content-type", "application/json")
	add("content-length", "1000")
	for i := range lines {
		add(fmt.Sprint("x-", i), strings.Repeat("v", 20))
	}
	c.frame(h2Headers, h2EndHeaders, c.next, block)
	c.frame(h2Data, 0, c.next, []byte("{"))
	c.next += 2
}

// answers reads frames until so many streams have ended, and returns the bytes of their bodies.
func (c *h2Conn) answers(n int) (bodies []string) {
	c.t.Helper()
	for len(bodies) < n {
		head := make([]byte, 9)
		_, err := io.ReadFull(c, head)
		require.NoError(c.t, err)
		payload := make([]byte, binary.BigEndian.Uint32(head)>>8)
		_, err = io.ReadFull(c, payload)
		require.NoError(c.t, err)
		if head[3] == h2Data && len(payload) > 0 {
			bodies = append(bodies, string(payload))
		}
	}
	return bodies
}

// Each request of HTTP/2 has a place among the connections, and is refused without one.
func TestRequestsOfHTTP2HavePlaces(t *testing.T) {
	srv, _ := newGated(t, false)
	r := start(t, srv, "--h2c", "--max-connections=24")
	c := r.dialH2(t)
	for range 28 {
		c.post(0)
	}
	for _, body := range c.answers(5) {
		require.JSONEq(t, `{"jsonrpc":"2.0","error":{"code":-32603,"message":"the server is overloaded: max_connections is reached",`+
			`"data":{"reason":"overload","limit":"max_connections"}}}`, body)
	}
	_, page := r.get(t, "/metrics")
	require.Regexp(t, `vitrine_share_used\{limit="max_connections"\} 2[0-4]\b`, page)
	require.Regexp(t, `vitrine_limit_reached_total\{limit="max_connections"\} [1-9]`, page)
	c.Close()
	require.Eventually(t, func() bool {
		_, page := r.get(t, "/metrics")
		return strings.Contains(page, `vitrine_share_used{limit="max_connections"} 0`)
	}, patience, 10*time.Millisecond)
	require.Equal(t, "after", r.call("echo", `{"text":"after"}`).text())
}
