package service

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/internal/report"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// addFlight adds the paths of the flight recorder. Pages of other origins must not take
// snapshots. The guard of the admin listener trusts the pages of all local ports on loopback, so a
// POST has an additional check.
func (p *process) addFlight(mux *http.ServeMux) {
	mux.HandleFunc("GET "+flightPath, p.flightList)
	mux.Handle("POST "+flightPath, http.NewCrossOriginProtection().Handler(http.HandlerFunc(p.flightTake)))
	mux.HandleFunc("GET "+flightPath+"/{name}", p.flightDownload)
}

// A flightReport is the list of snapshots.
type flightReport struct {
	SlowSeconds     float64        `json:"slow_seconds"` // 0: for abandoned handlers only
	IntervalSeconds float64        `json:"interval_seconds"`
	AgeSeconds      float64        `json:"age_seconds"`
	WindowBytes     int            `json:"window_bytes"`
	Keep            int            `json:"keep"`
	Snapshots       []flightRecord `json:"snapshots"` // oldest first
}

func (p *process) flightList(w http.ResponseWriter, r *http.Request) {
	if p.flightIsOff(w) {
		return
	}
	cfg := p.flight.cfg
	list := flightReport{
		SlowSeconds: cfg.Slow.Seconds(), IntervalSeconds: cfg.Interval.Seconds(), AgeSeconds: cfg.Age.Seconds(),
		WindowBytes: cfg.Bytes, Keep: cfg.Keep, Snapshots: []flightRecord{},
	}
	for _, s := range p.flight.list() {
		list.Snapshots = append(list.Snapshots, s.flightRecord)
	}
	if !report.WantsText(r) {
		writeJSON(w, http.StatusOK, list)
		return
	}
	uncached(w, "text/plain; charset=utf-8")
	fmt.Fprintf(w, "snapshots: %d, at most %d\n", len(list.Snapshots), list.Keep)
	report.WriteTable(logline.Text(w), "NAME\tREASON\tMETHOD\tTOOL\tRAN\tBYTES\tTRACE", len(list.Snapshots), func(i int) []any {
		s := &list.Snapshots[i]
		ran := time.Duration(s.RanSeconds * float64(time.Second)).Round(time.Millisecond)
		return []any{s.Name, s.Reason, s.Method, s.Tool, ran, s.Bytes, s.TraceID}
	})
}

// flightTake takes a snapshot on demand, and answers with its path.
func (p *process) flightTake(w http.ResponseWriter, _ *http.Request) {
	if p.flightIsOff(w) {
		return
	}
	s, err := p.flight.take(telemetry.HandlerIncident{Reason: report.FlightOnDemand})
	if err != nil {
		plain(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	w.Header().Set("Location", flightPath+"/"+s.Name)
	writeJSON(w, http.StatusCreated, s.flightRecord)
}

func (p *process) flightDownload(w http.ResponseWriter, r *http.Request) {
	if p.flightIsOff(w) {
		return
	}
	for _, s := range p.flight.list() {
		if s.Name == r.PathValue("name") {
			binary(w, s.Name)
			w.Header().Set("Content-Length", strconv.Itoa(len(s.data)))
			_, _ = w.Write(s.data) // an error means that the client has gone away
			return
		}
	}
	plain(w, http.StatusNotFound, "there is no such snapshot, or it had to make room for a later one")
}

// flightIsOff answers a request if there is no recorder.
func (p *process) flightIsOff(w http.ResponseWriter) bool {
	if p.flight == nil {
		plain(w, http.StatusNotFound, p.flightOff)
	}
	return p.flight == nil
}
