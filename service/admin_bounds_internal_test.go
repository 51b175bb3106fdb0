package service

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// An adminRig serves the admin listener over pipes, which buffer nothing: a client that
// does not read blocks the first byte.
type adminRig struct {
	t     *testing.T
	conns chan net.Conn
	done  chan struct{}
}

// inAdminRig runs a test of a whole admin listener in a bubble.
func inAdminRig(t *testing.T, limits server.Limits, test func(r *adminRig)) {
	synctest.Test(t, func(t *testing.T) {
		p := &process{options: newOptions(nil), access: &access{}, srv: server.New("testing", "1", server.WithLimits(limits)), cfg: DefaultConfig()}
		admin, err := p.newAdmin()
		require.NoError(t, err)
		r, end := newAdminRig(t, admin)
		defer func() {
			assert.NoError(t, p.srv.Shutdown(t.Context()))
			assert.NoError(t, p.srv.Telemetry().Shutdown(t.Context()))
			end()
		}()
		test(r)
	})
}

// newAdminRig serves over pipes.
func newAdminRig(t *testing.T, srv *http.Server) (r *adminRig, end func()) {
	r = &adminRig{t: t, conns: make(chan net.Conn), done: make(chan struct{})}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(r) }()
	return r, func() {
		assert.NoError(t, srv.Close())
		assert.ErrorIs(t, <-served, http.ErrServerClosed)
	}
}

// Accept implements net.Listener.
func (r *adminRig) Accept() (net.Conn, error) {
	select {
	case c := <-r.conns:
		return localConn{c}, nil
	case <-r.done:
		return nil, net.ErrClosed
	}
}

// A localConn comes from the same machine.
type localConn struct{ net.Conn }

// LocalAddr implements net.Conn.
func (localConn) LocalAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// Close implements net.Listener.
func (r *adminRig) Close() error { close(r.done); return nil }

// Addr implements net.Listener.
func (r *adminRig) Addr() net.Addr { return &net.TCPAddr{} }

// send sends a request over a connection of its own.
func (r *adminRig) send(text string) net.Conn {
	server, client := net.Pipe()
	r.conns <- server
	_, err := io.WriteString(client, text)
	require.NoError(r.t, err)
	return client
}

// ask asks for a path.
func (r *adminRig) ask(path string) net.Conn {
	return r.send("GET " + path + " HTTP/1.1\r\nHost: 10.1.2.3\r\n\r\n")
}

// answer reads an answer to its end.
func (r *adminRig) answer(c net.Conn) (status int, body string) {
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(r.t, err)
	text, err := io.ReadAll(res.Body)
	require.NoError(r.t, err)
	return res.StatusCode, string(text)
}

// closed reports whether the server has closed the connection, once all goroutines wait. It drops
// what the server has written.
func (r *adminRig) closed(c net.Conn) bool {
	synctest.Wait()
	_ = c.SetReadDeadline(time.Now()) // only what is there; a closed pipe takes none
	_, err := c.Read(make([]byte, 1))
	return err == io.EOF
}

// count returns how often a limit was reached.
func (r *adminRig) count(limit string) (n int) {
	_, body := r.answer(r.ask("/metrics"))
	for line := range strings.Lines(body) {
		if _, err := fmt.Sscanf(line, telemetry.MetricLimitReached+`{limit="`+limit+`"} %d`, &n); err == nil {
			return n
		}
	}
	r.t.Fatalf("no counter of %s", limit)
	return 0
}

// No answer of the admin listener is written for longer than its write timeout.
func TestAdminClientsThatDoNotRead(t *testing.T) {
	const timeout = 7 * time.Second
	for request, bound := range map[string]time.Duration{
		"GET /":                              timeout,
		"GET /livez":                         timeout,
		"GET /readyz":                        timeout,
		"GET /console/console.js":            timeout,
		"GET /metrics":                       30 * time.Second, // telemetry's own
		"GET /debug/live":                    10 * time.Second, // the same
		"GET /debug/requests":                timeout,
		"GET /debug/traces":                  timeout,
		"GET /debug/pprof/":                  timeout,
		"GET /debug/pprof/goroutine?debug=2": timeout,
		"GET /debug/pprof/heap":              timeout,
		"GET /debug/flight":                  timeout,
		"POST /debug/flight":                 timeout,
		"GET /nothing":                       timeout,
		"PUT /metrics":                       timeout,
		"BAD REQUEST":                        timeout,
	} {
		t.Run(request, func(t *testing.T) {
			inAdminRig(t, server.Limits{WriteTimeout: timeout}, func(r *adminRig) {
				host := "Host: 10.1.2.3"
				c := r.send(request + " HTTP/1.1\r\n" + host + "\r\n\r\n")
				time.Sleep(bound + timeout) // net/http may have a rest to write, and bounds it again
				require.True(t, r.closed(c), "it is still being written to")
			})
		})
	}
	t.Run("refused host", func(t *testing.T) {
		inAdminRig(t, server.Limits{WriteTimeout: timeout}, func(r *adminRig) {
			c := r.send("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n")
			time.Sleep(timeout)
			require.True(t, r.closed(c))
		})
	})
}

// Refused and lost answers are counted, and a refusal names the limit. Probes and scrapes are
// still answered.
func TestAdminRequestsAtOnce(t *testing.T) {
	limits := server.Limits{MaxAdminRequests: 2, MaxProfiles: 2, WriteTimeout: time.Minute}
	inAdminRig(t, limits, func(r *adminRig) {
		var blocked []net.Conn
		for range limits.MaxAdminRequests {
			blocked = append(blocked, r.ask("/debug/pprof/goroutine?debug=2"))
		}
		synctest.Wait()
		status, body := r.answer(r.ask("/debug/requests"))
		require.Equal(t, http.StatusServiceUnavailable, status)
		require.Equal(t, "too many requests at the same time: max_admin_requests allows 2\n", body)
		for _, path := range []string{"/livez", "/readyz", "/metrics"} {
			status, _ = r.answer(r.ask(path))
			require.Equal(t, http.StatusOK, status, path)
		}
		require.Equal(t, 1, r.count("max_admin_requests"))
		require.Zero(t, r.count("write_timeout"))

		time.Sleep(limits.WriteTimeout)
		synctest.Wait()
		require.Equal(t, limits.MaxAdminRequests, r.count("write_timeout"))
		status, _ = r.answer(r.ask("/debug/requests"))
		require.Equal(t, http.StatusOK, status, "their places are free")
		for _, c := range blocked {
			require.True(t, r.closed(c))
		}
	})
}

// A client that announces a body and does not send it takes no place, and is disconnected soon.
func TestAdminRequestsHaveNoBody(t *testing.T) {
	limits := server.Limits{MaxAdminRequests: 1, BodyTimeout: 3 * time.Second}
	inAdminRig(t, limits, func(r *adminRig) {
		c := r.send("GET /metrics HTTP/1.1\r\nHost: 10.1.2.3\r\nContent-Length: 1\r\n\r\n")
		synctest.Wait()
		status, _ := r.answer(r.ask("/debug/requests"))
		require.Equal(t, http.StatusOK, status)
		begun := time.Now()
		status, body := r.answer(c)
		require.Equal(t, http.StatusRequestEntityTooLarge, status)
		require.Equal(t, "nothing here takes a body\n", body)
		require.Equal(t, limits.BodyTimeout, time.Since(begun))
		require.True(t, r.closed(c))
	})
}

// A connection that was idle for longer than the write timeout serves the next request.
func TestAdminDeadlinesEndWithTheirAnswers(t *testing.T) {
	limits := server.Limits{WriteTimeout: time.Second}
	inAdminRig(t, limits, func(r *adminRig) {
		for _, path := range []string{"/livez", "/metrics", "/debug/pprof/goroutine?debug=2", "/debug/requests"} {
			c := r.ask(path)
			for range 2 {
				status, _ := r.answer(c)
				require.Equal(t, http.StatusOK, status, path)
				time.Sleep(2 * limits.WriteTimeout)
				_, err := io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: 10.1.2.3\r\n\r\n")
				require.NoError(t, err)
			}
			status, _ := r.answer(c)
			require.Equal(t, http.StatusOK, status, path)
		}
	})
}

// A profile or a stream is not cut off while its reader reads. Other answers have one timeout as
// a whole.
func TestAdminRollingDeadlines(t *testing.T) {
	const timeout, pieces = 10 * time.Second, 20
	for path, rolling := range map[string]bool{
		"/debug/pprof/profile":   true,
		"/debug/pprof/trace":     true,
		"/debug/pprof/heap":      true,
		"/debug/flight/snapshot": true,
		"/debug/flight":          false,
		"/debug/requests":        false,
		"/":                      false,
	} {
		t.Run(path, func(t *testing.T) {
			piece := strings.Repeat("x", boundedPiece)
			if rolling {
				piece = strings.Repeat(piece, 3)
			}
			synctest.Test(t, func(t *testing.T) {
				reached := map[string]int{}
				handled := make(chan int, 1)
				r, end := newAdminRig(t, &http.Server{Handler: &adminBounds{
					limits:  server.Limits{WriteTimeout: timeout, MaxAdminRequests: 1, MaxHeaders: 9},
					reached: func(limit string) { reached[limit]++ },
					next: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
						wrote := 0
						for range pieces {
							time.Sleep(timeout / 2) // it takes long to make
							n, err := io.WriteString(w, piece)
							if wrote += n; err != nil {
								break
							}
						}
						handled <- wrote
					}),
				}})
				c := r.ask(path)
				var reader sync.WaitGroup
				reader.Go(func() {
					for slow := make([]byte, boundedPiece); ; {
						time.Sleep(timeout / 2) // and to read
						if _, err := io.ReadFull(c, slow); err != nil {
							return
						}
					}
				})
				wrote := <-handled
				c.Close()
				reader.Wait()
				end()
				if rolling {
					require.Equal(t, pieces*len(piece), wrote)
					require.Empty(t, reached)
				} else {
					require.Less(t, wrote, pieces*len(piece))
					require.Equal(t, map[string]int{"write_timeout": 1}, reached)
				}
			})
		})
	}
}

// Writes of net/http after the handler has returned are bounded too: here the last chunk of an
// answer whose handler has removed its own deadline.
func TestAdminLastChunk(t *testing.T) {
	limits := server.Limits{WriteTimeout: time.Second}
	inAdminRig(t, limits, func(r *adminRig) {
		c := r.send("GET /metrics HTTP/1.1\r\nHost: 10.1.2.3\r\nAccept: application/openmetrics-text\r\n\r\n")
		var got strings.Builder
		for b := make([]byte, 1); !strings.HasSuffix(got.String(), "# EOF\n\r\n"); {
			_, err := c.Read(b)
			require.NoError(t, err)
			got.Write(b)
		}
		time.Sleep(limits.WriteTimeout)
		require.True(t, r.closed(c))
	})
}

// A long answer whose end is not read is counted, although its handler has returned.
func TestAdminEndOfALongAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reached, handled := map[string]int{}, make(chan struct{})
		r, end := newAdminRig(t, &http.Server{Handler: &adminBounds{
			limits:  server.Limits{WriteTimeout: time.Second, MaxAdminRequests: 1, MaxHeaders: 9},
			reached: func(limit string) { reached[limit]++ },
			next: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				defer close(handled)
				for range shortAnswer/100 + 10 {
					_, err := io.WriteString(w, strings.Repeat("x", 100))
					assert.NoError(t, err)
				}
			}),
		}})
		c := r.ask("/")
		for reading := true; reading; {
			_, err := c.Read(make([]byte, 1))
			require.NoError(t, err)
			synctest.Wait()
			select {
			case <-handled:
				reading = false
			default:
			}
		}
		time.Sleep(time.Second)
		require.True(t, r.closed(c))
		end()
		require.Equal(t, map[string]int{"write_timeout": 1}, reached)
	})
}

// A handler can set its own deadline, and missing it is not counted.
func TestAdminHandlersWithDeadlines(t *testing.T) {
	const timeout, own = time.Second, 10 * time.Second
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		r, end := newAdminRig(t, &http.Server{Handler: &adminBounds{
			limits:  server.Limits{WriteTimeout: timeout, MaxAdminRequests: 1, MaxHeaders: 9},
			reached: func(limit string) { t.Errorf("%s is counted", limit) },
			next: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				assert.NoError(t, http.NewResponseController(w).SetWriteDeadline(begun.Add(own)))
				_, err := io.WriteString(w, strings.Repeat("x", boundedPiece))
				assert.ErrorIs(t, err, os.ErrDeadlineExceeded)
				assert.Equal(t, own, time.Since(begun))
			}),
		}})
		c := r.ask("/")
		time.Sleep(own)
		require.True(t, r.closed(c))
		end()
	})
}

// A handler may wait for longer than a client may take to read, before its answer and between two pieces of it. Over HTTP/2 a
// deadline resets the answer whenever it passes.
func TestPausesOfAnAnswerMayBeLongerThanAWrite(t *testing.T) {
	const timeout = 2 * time.Second // a busy machine takes no longer for a write
	pause := func(*boundedWriter) { time.Sleep(timeout * 5 / 4) }
	for name, tt := range map[string]struct{ before, between func(*boundedWriter) }{
		"before":            {pause, func(*boundedWriter) {}},
		"after a flush":     {func(*boundedWriter) {}, func(w *boundedWriter) { _ = w.FlushError(); pause(w) }},
		"without any flush": {func(*boundedWriter) {}, pause},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // they wait
			srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				out := newBoundedWriter(w, r, timeout, true, func(limit string) { t.Errorf("%s is counted", limit) })
				defer out.finish()
				tt.before(out)
				_, _ = io.WriteString(out, "one ")
				tt.between(out)
				_, _ = io.WriteString(out, "two")
			}))
			srv.EnableHTTP2, srv.Config.WriteTimeout = true, timeout
			srv.StartTLS()
			defer srv.Close()
			resp, err := srv.Client().Get(srv.URL)
			require.NoError(t, err)
			defer resp.Body.Close()
			require.Equal(t, 2, resp.ProtoMajor)
			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.Equal(t, "one two", string(body))
		})
	}
}
