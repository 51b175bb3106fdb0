package e2e

import (
	"bufio"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A server that was stopped, as on a machine that sleeps, serves the request that has come meanwhile on a connection
// whose time for the header is over: the client was in time.
func TestRequestThatComesWhileTheServerIsStopped(t *testing.T) {
	t.Parallel()
	const headerTime = 3 * time.Second
	s := serveHTTP(t, withArgs("--read-header-timeout", headerTime.String()))
	endpoint, err := url.Parse(s.mcp)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", endpoint.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	eventually(t, func() error {
		if s.metrics(t).sum("vitrine_share_used", "limit", "max_connections") == 0 {
			return errors.New("the server has not accepted the connection")
		}
		return nil
	})
	s.signal(t, syscall.SIGSTOP)
	req, err := http.NewRequest(http.MethodPost, s.mcp, strings.NewReader(echoX(1).frame()))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = echoX(1).headers()
	if err := req.Write(conn); err != nil {
		t.Fatal(err)
	}
	time.Sleep(headerTime + time.Second)
	s.signal(t, syscall.SIGCONT)
	resp, err := http.ReadResponse(bufio.NewReader(conn), req)
	if err != nil {
		t.Fatalf("the request is lost: %v", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Error(resp.Status)
	}
}
