package service_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/trace"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/needs"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// A flightRecord is one entry of GET /debug/flight.
type flightRecord struct {
	Name, Reason, Method, Tool string
	TraceID                    string  `json:"trace_id"`
	RanSeconds                 float64 `json:"ran_seconds"`
	Bytes                      int
}

// snapshots returns what is listed.
func (r *running) snapshots(t *testing.T) []flightRecord {
	t.Helper()
	status, body := r.get(t, "/debug/flight")
	require.Equal(t, http.StatusOK, status, body)
	var report struct{ Snapshots []flightRecord }
	require.NoError(t, json.Unmarshal([]byte(body), &report))
	return report.Snapshots
}

// snapshot waits for the first snapshot.
func (r *running) snapshot(t *testing.T) flightRecord {
	t.Helper()
	require.Eventually(t, func() bool { return len(r.snapshots(t)) > 0 }, patience, time.Millisecond)
	return r.snapshots(t)[0]
}

// take takes a snapshot on demand and returns the answer without its body.
func (r *running) take(t *testing.T, header ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, r.Admin+"/debug/flight", nil)
	require.NoError(t, err)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := r.client.Do(req)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return resp
}

// parsed reads a trace with the tool that users read it with, and returns its events
// as text.
func parsed(t *testing.T, data string) string {
	t.Helper()
	needs.Tool(t, "service/flight", "go")
	file := filepath.Join(t.TempDir(), "flight.trace")
	require.NoError(t, os.WriteFile(file, []byte(data), 0o600))
	events, err := exec.CommandContext(t.Context(), "go", "tool", "trace", "-d=parsed", file).Output()
	require.NoError(t, err)
	return string(events)
}

// A slow handler causes one snapshot, in which its request can be found by its tool and its trace
// ID, even if its span is not recorded. Slow handlers right after it cause no other.
func TestFlightRecordsSlowHandlers(t *testing.T) {
	for name, sampler := range map[string]string{"recorded": "always_on", "not recorded": "always_off"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("OTEL_TRACES_SAMPLER", sampler)
			srv, _ := newGated(t, false)
			r := start(t, srv, "--flight-recorder", "--flight-slow=1ns", "--flight-interval=1h")
			require.Empty(t, r.snapshots(t))
			const calls = 20
			for range calls {
				require.Equal(t, "hello", r.call("echo", `{"text":"hello"}`).text())
			}
			s := r.snapshot(t)
			require.Equal(t, "slow_handler", s.Reason)
			require.Equal(t, "tools/call", s.Method)
			require.Equal(t, "echo", s.Tool)
			require.Positive(t, s.RanSeconds)
			require.Len(t, s.TraceID, 32)
			require.Eventually(t, func() bool {
				_, metrics := r.get(t, "/metrics")
				return strings.Contains(metrics, `vitrine_flight_triggers_dropped_total{reason="interval"} 19`)
			}, patience, time.Millisecond)
			require.Len(t, r.snapshots(t), 1)
			_, text := r.get(t, "/debug/flight?format=text")
			require.Regexp(t, `(?m)^`+s.Name+` +slow_handler +tools/call +echo +\S+ +\d+ +`+s.TraceID+`$`, text)

			status, data := r.get(t, "/debug/flight/"+s.Name)
			require.Equal(t, http.StatusOK, status)
			require.Len(t, data, s.Bytes)
			events := parsed(t, data)
			logged := regexp.MustCompile(`G=(\d+) Log Time=\d+ Task=(\d+) Category="trace_id" Message="` + s.TraceID + `"`).FindStringSubmatch(events)
			require.NotNil(t, logged)
			for _, event := range []string{
				` TaskBegin Time=\d+ ID=` + logged[2] + ` Parent=18446744073709551615 Type="tools/call echo"`, // no other task is around it
				`G=` + logged[1] + ` RegionBegin Time=\d+ Task=` + logged[2] + ` Type="tools/call echo"`,
				`G=` + logged[1] + ` RegionEnd Time=\d+ Task=` + logged[2] + ` Type="tools/call echo"`,
			} {
				require.Regexp(t, event, events)
			}
			require.False(t, strings.Contains(data, "hello"), "a trace has no payloads")
		})
	}
}

// A handler that ignores its cancelled context is caught in the act.
func TestFlightRecordsAbandonedHandlers(t *testing.T) {
	srv, g := newGated(t, true)
	r := start(t, srv, "--flight-recorder", "--flight-slow=0", "--request-timeout=5ms", "--cleanup-grace=1ms", "--abandon-grace=2ms")
	_, result := r.enter(t, g)
	<-result
	s := r.snapshot(t)
	require.Equal(t, "abandoned_handler", s.Reason)
	require.Equal(t, "gated", s.Tool)
	close(g.open)
	require.Contains(t, parsed(t, download(t, r, s.Name)), `Type="tools/call gated"`)
}

func download(t *testing.T, r *running, name string) string {
	t.Helper()
	status, data := r.get(t, "/debug/flight/"+name)
	require.Equal(t, http.StatusOK, status)
	return data
}

// Snapshots can be asked for, and only so many are kept.
func TestFlightOnDemand(t *testing.T) {
	srv, _ := newGated(t, false)
	r := start(t, srv, "--flight-recorder", "--flight-keep=2")
	var paths []string
	for range 3 {
		resp := r.take(t)
		require.Equal(t, http.StatusCreated, resp.StatusCode)
		paths = append(paths, resp.Header.Get("Location"))
	}
	kept := r.snapshots(t)
	require.Len(t, kept, 2)
	for i, s := range kept {
		require.Equal(t, paths[i+1], "/debug/flight/"+s.Name)
		require.Equal(t, "on_demand", s.Reason)
	}
	status, body := r.get(t, paths[0])
	require.Equal(t, http.StatusNotFound, status)
	require.Contains(t, body, "no such snapshot")
	parsed(t, download(t, r, kept[1].Name))
}

// A web page cannot ask for one, not even that of another local server.
func TestFlightRefusesOtherOrigins(t *testing.T) {
	srv, _ := newGated(t, false)
	r := start(t, srv, "--flight-recorder")
	for _, header := range [][]string{
		{"Origin", "https://evil.example"},
		{"Origin", "http://localhost:1"},
		{"Origin", "null"},
		{"Sec-Fetch-Site", "cross-site"},
	} {
		require.Equal(t, http.StatusForbidden, r.take(t, header...).StatusCode, header)
	}
	require.Empty(t, r.snapshots(t))
	require.Equal(t, http.StatusCreated, r.take(t, "Origin", r.Admin).StatusCode)
}

func TestFlightIsOff(t *testing.T) {
	srv, _ := newGated(t, false)
	r := start(t, srv)
	require.False(t, trace.IsEnabled())
	for _, path := range []string{"/debug/flight", "/debug/flight/any.trace"} {
		status, body := r.get(t, path)
		require.Equal(t, http.StatusNotFound, status)
		require.Contains(t, body, "--flight-recorder")
		require.Contains(t, body, "VITRINE_FLIGHT_RECORDER")
	}
	require.Equal(t, http.StatusNotFound, r.take(t).StatusCode)
}

// The runtime has one flight recorder. Without it the service serves.
func TestFlightThatCannotStart(t *testing.T) {
	theirs := trace.NewFlightRecorder(trace.FlightRecorderConfig{})
	require.NoError(t, theirs.Start())
	defer theirs.Stop()
	srv, _ := newGated(t, false)
	r := start(t, srv, "--flight-recorder")
	require.Equal(t, "x", r.call("echo", `{"text":"x"}`).text())
	status, body := r.get(t, "/debug/flight")
	require.Equal(t, http.StatusNotFound, status)
	require.Contains(t, body, "already enabled")
	require.Contains(t, r.stderr.String(), "flight.start")
}

func TestFlightNeedsAnAdminListener(t *testing.T) {
	srv, _ := newGated(t, false)
	r := start(t, srv, "--flight-recorder", "--admin-addr=off")
	require.False(t, trace.IsEnabled())
	require.Contains(t, r.stderr.String(), "--admin-addr")
}

func TestFlightWarnsOfAWindowThatIsTooShort(t *testing.T) {
	srv, _ := newGated(t, false)
	r := start(t, srv, "--flight-recorder", "--flight-slow=10s")
	require.Contains(t, r.stderr.String(), "flight.window")
}

// A trace of the runtime can be asked for while the recorder is armed, and a snapshot
// while the trace is written.
func TestFlightAndTraceTogether(t *testing.T) {
	srv := server.New("testing", "1.2.3", server.WithTelemetry(telemetry.Disabled()))
	server.AddTool(srv, server.Tool{Name: "echo"}, func(context.Context, *server.Call, struct{}) (string, error) { return "x", nil })
	r := start(t, srv, "--flight-recorder")
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.Admin+"/debug/pprof/trace?seconds=60", nil)
	require.NoError(t, err)
	answers := make(chan string, 1)
	go func() {
		defer close(answers)
		resp, err := r.client.Do(req)
		if err != nil {
			return
		}
		defer resp.Body.Close()
		head := make([]byte, 16)
		_, _ = io.ReadFull(resp.Body, head)
		answers <- string(head)
	}()
	r.call("echo", "{}")
	during := r.take(t).Header.Get("Location") // ends a generation, so that the trace is written out
	require.Contains(t, <-answers, "go 1.", "the trace has begun")
	r.call("echo", "{}")
	require.Contains(t, parsed(t, download(t, r, filepath.Base(during))), `Type="tools/call echo"`)
	cancel()
	<-answers

	var whole string
	require.Eventually(t, func() bool { // once the first has ended
		status, body := r.get(t, "/debug/pprof/trace?seconds=0.01")
		whole = body
		return status == http.StatusOK
	}, patience, time.Millisecond)
	parsed(t, whole)
	r.call("echo", "{}")
	after := r.take(t).Header.Get("Location")
	require.Contains(t, parsed(t, download(t, r, filepath.Base(after))), `Type="tools/call echo"`)
}
