package main

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/bench/servers"
)

// echoServer is the floor, which does something before each answer.
func echoServer(t *testing.T, before func()) *httptest.Server {
	t.Helper()
	srv, err := servers.All()[1].New(fewTools)
	require.NoError(t, err)
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		before()
		srv.Modern.ServeHTTP(w, r)
	}))
	t.Cleanup(ts.Close)
	return ts
}

// A request that had to wait behind a slow one has waited since it was due. No request below was
// answered faster than the server had stalled after the last of them was due, although it
// answered all but the first at once.
func TestOpenLoopCountsWaitingForSlowRequests(t *testing.T) {
	const lasting, stall = 20 * time.Millisecond, 150 * time.Millisecond
	var stalled atomic.Bool
	ts := echoServer(t, func() {
		if stalled.CompareAndSwap(false, true) {
			time.Sleep(stall)
		}
	})
	s := scenario{kind: call, size: small, tools: fewTools, callers: 1}
	l, err := newHTTPLoad(s, render(s), ts.Listener.Addr().String())
	require.NoError(t, err)
	defer l.close()
	h, err := l.open(1000, lasting)
	require.NoError(t, err)
	require.Equal(t, len(schedule(1000, lasting)), h.requests, "all that were due were sent")
	require.Greater(t, h.requests, 5)
	slices.Sort(l.callers[0].took)
	require.Greater(t, l.callers[0].took[0], stall/2)
	require.LessOrEqual(t, h.p50, h.p99)
}

func TestOpenLoopFails(t *testing.T) {
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		http.Error(w, "overload", http.StatusServiceUnavailable)
	}))
	defer ts.Close()
	s := scenario{kind: call, size: small, tools: fewTools, callers: 3}
	l, err := newHTTPLoad(s, render(s), ts.Listener.Addr().String())
	require.NoError(t, err)
	defer l.close()
	_, err = l.open(10_000, time.Millisecond)
	require.ErrorContains(t, err, "status 503")
}

func TestSchedule(t *testing.T) {
	times := schedule(2000, 10*time.Second)
	require.True(t, slices.IsSorted(times))
	require.InDelta(t, 20_000, len(times), 600)
	require.Equal(t, times, schedule(2000, 10*time.Second), "the same for every server")
	require.NotEqual(t, times[1]-times[0], times[2]-times[1])
	require.Len(t, schedule(0.001, time.Nanosecond), 1)
}

func TestPaceIsNeverEarly(t *testing.T) {
	times := schedule(10_000, 10*time.Millisecond)
	due := make(chan time.Time, len(times))
	begin := time.Now()
	late := pace(begin, times, due)
	require.GreaterOrEqual(t, time.Since(begin), times[len(times)-1])
	require.Len(t, late, len(times))
	for _, at := range times {
		require.Equal(t, begin.Add(at), <-due)
	}
}

func TestMemoryLoadFails(t *testing.T) {
	for name, tt := range map[string]struct {
		answer string
		err    error
		want   string
	}{
		"error":   {err: errors.New("hung up"), want: "hung up"},
		"nothing": {answer: `{}`, want: "has the id"},
	} {
		t.Run(name, func(t *testing.T) {
			ts := httptest.NewServer(&memoryHandler{connect: func() (servers.Ask, error) {
				return func([]byte) ([]byte, error) { return []byte(tt.answer), tt.err }, nil
			}})
			defer ts.Close()
			s := scenario{kind: call, memory: true, size: small, tools: fewTools, callers: 2}
			_, err := (&memoryLoad{scenario: s, message: render(s), url: ts.URL}).run(time.Microsecond)
			require.ErrorContains(t, err, tt.want)
		})
	}
}
