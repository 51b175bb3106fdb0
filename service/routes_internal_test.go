package service

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/server"
)

// inRoutesRig runs a test of both listeners with a program's own handler at /own, over
// pipes and in a bubble.
func inRoutesRig(t *testing.T, limits server.Limits, own http.HandlerFunc, test func(t *testing.T, r *adminRig)) {
	for name, make := range map[string]func(p *process) (*http.Server, error){
		"MCP": func(p *process) (*http.Server, error) {
			e, err := p.newEndpoint()
			if err != nil {
				return nil, err
			}
			return e.http, nil
		},
		"admin": (*process).newAdmin,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &process{access: &access{},
					options: newOptions([]Option{WithHTTPHandler("/own", own), WithAdminHandler("/own", own)}),
					srv:     server.New("testing", "1", server.WithLimits(limits)), cfg: DefaultConfig(),
				}
				srv, err := make(p)
				require.NoError(t, err)
				r, end := newAdminRig(t, srv)
				defer func() {
					assert.NoError(t, p.srv.Shutdown(t.Context()))
					assert.NoError(t, p.srv.Telemetry().Shutdown(t.Context()))
					end()
				}()
				test(t, r)
			})
		})
	}
}

const host = "Host: 10.1.2.3\r\n"

// A client that does not read an answer is cut off.
func TestOwnHandlersAndClientsThatDoNotRead(t *testing.T) {
	limits := server.Limits{WriteTimeout: 7 * time.Second}
	for _, size := range []int{0, 1, shortAnswer, 4 * boundedPiece} {
		own := func(w http.ResponseWriter, _ *http.Request) {
			if size > 0 {
				_, _ = io.WriteString(w, strings.Repeat("x", size))
			}
		}
		inRoutesRig(t, limits, own, func(t *testing.T, r *adminRig) {
			c := r.ask("/own")
			time.Sleep(2 * limits.WriteTimeout)
			require.True(t, r.closed(c), "it is still being written to")
		})
	}
}

// The deadline of an answer ends with it: the connection may carry what takes longer next.
func TestOwnHandlersLeaveNoDeadline(t *testing.T) {
	limits := server.Limits{WriteTimeout: time.Second}
	slow := false
	own := func(w http.ResponseWriter, _ *http.Request) {
		if slow {
			time.Sleep(10 * limits.WriteTimeout)
		}
		_, _ = io.WriteString(w, "done")
	}
	inRoutesRig(t, limits, own, func(t *testing.T, r *adminRig) {
		slow = false
		c := r.ask("/own")
		status, _ := r.answer(c)
		require.Equal(t, http.StatusOK, status)
		slow = true
		_, err := io.WriteString(c, "GET /own HTTP/1.1\r\n"+host+"\r\n")
		require.NoError(t, err)
		status, body := r.answer(c)
		require.Equal(t, http.StatusOK, status)
		require.Equal(t, "done", body)
		time.Sleep(2 * limits.WriteTimeout)
		_, err = io.WriteString(c, "GET /nothing HTTP/1.1\r\n"+host+"\r\n")
		require.NoError(t, err)
		status, _ = r.answer(c)
		require.Equal(t, http.StatusNotFound, status)
		require.NoError(t, c.Close())
	})
}

// A body that does not arrive costs its handler no more than body_timeout, and one that has
// arrived does not cost it its context.
func TestOwnHandlersAndBodies(t *testing.T) {
	limits := server.Limits{BodyTimeout: 3 * time.Second, MaxFrameBytes: 1000}
	own := func(w http.ResponseWriter, r *http.Request) {
		begun := time.Now()
		if _, err := io.ReadAll(r.Body); err != nil {
			http.Error(w, time.Since(begun).String()+" "+err.Error(), http.StatusBadRequest)
			return
		}
		wait(10*limits.BodyTimeout, r.Context().Done())
		if r.Context().Err() != nil {
			t.Error("the context has ended")
		}
		_, _ = io.WriteString(w, "read")
	}
	inRoutesRig(t, limits, own, func(t *testing.T, r *adminRig) {
		status, body := r.answer(r.send("POST /own HTTP/1.1\r\n" + host + "Content-Length: 5\r\n\r\n12"))
		require.Equal(t, http.StatusBadRequest, status)
		require.Contains(t, body, "3s ")
		status, body = r.answer(r.send("POST /own HTTP/1.1\r\n" + host + "Content-Length: 2000\r\n\r\n" + strings.Repeat("x", 1001)))
		require.Equal(t, http.StatusBadRequest, status)
		require.Contains(t, body, "0s http: request body too large")
		c := r.send("POST /own HTTP/1.1\r\n" + host + "Content-Length: 2\r\n\r\n12")
		status, body = r.answer(c)
		require.Equal(t, http.StatusOK, status)
		require.Equal(t, "read", body)
		require.NoError(t, c.Close())
	})
}

// The program's own pages count towards max_admin_requests.
func TestOwnAdminHandlersAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		p := &process{access: &access{},
			options: newOptions([]Option{WithAdminHandler("/own", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))}),
			srv:     server.New("testing", "1", server.WithLimits(server.Limits{MaxAdminRequests: 1})), cfg: DefaultConfig(),
		}
		srv, err := p.newAdmin()
		require.NoError(t, err)
		r, end := newAdminRig(t, srv)
		first := r.ask("/own")
		synctest.Wait()
		status, body := r.answer(r.ask("/own"))
		require.Equal(t, http.StatusServiceUnavailable, status)
		require.Contains(t, body, "max_admin_requests allows 1")
		close(release)
		status, _ = r.answer(first)
		require.Equal(t, http.StatusOK, status)
		require.NoError(t, p.srv.Shutdown(t.Context()))
		require.NoError(t, p.srv.Telemetry().Shutdown(t.Context()))
		end()
	})
}
