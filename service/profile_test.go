package service_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Dumps stop the program, so that many at once would slow down all callers.
func TestOneProfileAtATime(t *testing.T) {
	srv, _ := newGated(t, false)
	r := start(t, srv)
	first := make(chan int, 1)
	go func() {
		for { // until it does not meet one of the dumps below
			resp, err := r.client.Get(r.Admin + "/debug/pprof/profile?seconds=2")
			if err != nil {
				first <- 0
				return
			}
			resp.Body.Close()
			if resp.StatusCode != http.StatusServiceUnavailable {
				first <- resp.StatusCode
				return
			}
		}
	}()
	busy := func() bool {
		resp, body := r.do(t, http.MethodGet, r.Admin+"/debug/pprof/goroutine?debug=2", "")
		if resp.StatusCode != http.StatusServiceUnavailable {
			return false
		}
		require.Equal(t, "1", resp.Header.Get("Retry-After"))
		require.Equal(t, "another profile is being taken: max_profiles allows 1\n", body)
		return true
	}
	require.Eventually(t, busy, patience, time.Millisecond)
	for _, page := range []string{"/debug/pprof/heap?gc=1", "/debug/pprof/trace?seconds=1", "/debug/pprof/profile?seconds=1"} {
		status, _ := r.get(t, page)
		require.Equal(t, http.StatusServiceUnavailable, status, page)
	}
	status, _ := r.get(t, "/debug/pprof/")
	require.Equal(t, http.StatusOK, status, "the list costs nothing")
	require.Equal(t, http.StatusOK, <-first)
	_, metrics := r.get(t, "/metrics")
	require.Regexp(t, `vitrine_limit_reached_total\{limit="max_profiles"\} [1-9]`, metrics)
	status, _ = r.get(t, "/debug/pprof/goroutine?debug=2")
	require.Equal(t, http.StatusOK, status)
}

func TestLongProfileIsRefused(t *testing.T) {
	srv, _ := newGated(t, false)
	r := start(t, srv, "--max-profile-time=2s")
	for _, page := range []string{"/debug/pprof/profile?seconds=3600", "/debug/pprof/trace?seconds=2.5"} {
		status, body := r.get(t, page)
		require.Equal(t, http.StatusBadRequest, status, page)
		require.Contains(t, body, "max_profile_time allows 2s")
	}
	_, metrics := r.get(t, "/metrics")
	require.Contains(t, metrics, `vitrine_limit_reached_total{limit="max_profile_time"} 2`)
}
