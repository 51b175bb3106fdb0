package attack

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// get reads a page of the admin listener.
func (s *target) get(path string, header ...string) (*http.Response, string, error) {
	req, err := http.NewRequest(http.MethodGet, s.admin+path, nil)
	if err != nil {
		return nil, "", err
	}
	if s.credential != "" {
		req.Header.Set("Authorization", "Bearer "+s.credential)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp, string(body), err
}

// page reads a page of the admin listener that must be there.
func (s *target) page(t *testing.T, path string, header ...string) string {
	t.Helper()
	resp, body, err := s.get(path, header...)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %v %s", path, err, body)
	}
	return body
}

// A report has those parts of /debug/requests that the tests read.
type report struct {
	Requests []struct{ Tool, State string }
	Sessions []struct{ Client string }
	Totals   struct {
		Admitted, Sent, Stored uint64
		Dropped, Rejected      map[string]uint64
	}
}

func (s *target) report() (rep report, err error) {
	_, body, err := s.get("/debug/requests", "Accept", "application/json")
	if err == nil {
		err = json.Unmarshal([]byte(body), &rep)
	}
	return rep, err
}

// inFlight returns how many calls of a tool run or wait; of all tools for "".
func (s *target) inFlight(tool string) (n int, err error) {
	rep, err := s.report()
	for _, r := range rep.Requests {
		if tool == "" || r.Tool == tool {
			n++
		}
	}
	return n, err
}

func (s *target) awaitInFlight(t *testing.T, tool string, want int) {
	t.Helper()
	eventually(t, func() error {
		n, err := s.inFlight(tool)
		if err == nil && n != want {
			err = fmt.Errorf("%d calls of %q are in flight, want %d", n, tool, want)
		}
		return err
	})
}

// admitted returns how many requests the server has admitted.
func (s *target) admitted(t *testing.T) uint64 {
	t.Helper()
	rep, err := s.report()
	if err != nil {
		t.Fatal(err)
	}
	return rep.Totals.Admitted
}

// conserved waits until nothing is in flight and every admitted request has one outcome, on both
// pages. What a client has sent before it went away may be admitted a moment later.
func (s *target) conserved(t *testing.T) {
	t.Helper()
	eventually(t, func() error {
		rep, err := s.report()
		if err != nil {
			return err
		}
		if len(rep.Requests) > 0 {
			return fmt.Errorf("%d requests are in flight: %+v", len(rep.Requests), rep.Requests[0])
		}
		dropped := uint64(0)
		for _, n := range rep.Totals.Dropped {
			dropped += n
		}
		if a := rep.Totals; a.Admitted != a.Sent+a.Stored+dropped {
			return fmt.Errorf("not conserved: admitted %d, sent %d, stored %d, dropped %v", a.Admitted, a.Sent, a.Stored, a.Dropped)
		}
		m := s.metrics(t)
		known := m.sum("vitrine_responses_sent_total") + m.sum("vitrine_responses_stored_total") + m.sum("vitrine_responses_dropped_total")
		if admitted := m.sum("vitrine_requests_admitted_total"); admitted != known || uint64(admitted) != rep.Totals.Admitted {
			return fmt.Errorf("not conserved on /metrics: admitted %v (reported %d), with a known fate %v", admitted, rep.Totals.Admitted, known)
		}
		return nil
	})
}

// metrics is one scrape: values by series, as they are written.
type metrics map[string]float64

func (s *target) metrics(t *testing.T) metrics {
	t.Helper()
	m := metrics{}
	for line := range strings.Lines(s.page(t, "/metrics")) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") {
			continue
		}
		line, _, _ = strings.Cut(line, " # ") // an exemplar
		end := strings.LastIndexByte(line, '}') + 1
		series, value, ok := strings.Cut(line[end:], " ")
		value, _, _ = strings.Cut(value, " ")
		if v, err := strconv.ParseFloat(value, 64); ok && err == nil {
			m[line[:end]+series] = v
		}
	}
	return m
}

// sum adds up the series of a metric that have all labels, each written as name="value".
func (m metrics) sum(name string, labels ...string) (sum float64) {
next:
	for series, v := range m {
		if series != name && !strings.HasPrefix(series, name+"{") {
			continue
		}
		for _, l := range labels {
			if !strings.Contains(series, l) {
				continue next
			}
		}
		sum += v
	}
	return sum
}

// cpu returns the CPU time that the process has used, in units of 10 ms.
func (s *target) cpu(t *testing.T) time.Duration {
	t.Helper()
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(s.cmd.Process.Pid), "stat"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest) // from the third field of proc(5) on
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}

// memory returns a figure of /proc/<pid>/status in bytes, such as VmRSS, or VmHWM, the largest
// since the last call of forgetPeak.
func (s *target) memory(t *testing.T, name string) int64 {
	t.Helper()
	return s.status(t, name) << 10
}

// status returns a number of /proc/<pid>/status.
func (s *target) status(t *testing.T, name string) int64 {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(s.cmd.Process.Pid), "status"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			n, _ := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
			return n
		}
	}
	t.Fatalf("no %s in the status of the process", name)
	return 0
}

// forgetPeak makes VmHWM begin anew.
func (s *target) forgetPeak(t *testing.T) {
	t.Helper()
	if err := os.WriteFile(filepath.Join("/proc", strconv.Itoa(s.cmd.Process.Pid), "clear_refs"), []byte("5"), 0); err != nil {
		t.Fatal(err)
	}
}
