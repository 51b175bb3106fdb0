package report

import (
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/logline"
)

// A Page can be written as text. Errors of the writer are ignored, because they mean that the client
// has gone away.
type Page interface{ WriteText(w io.Writer) }

// Write answers a request with a page, as text or as JSON.
func Write(w http.ResponseWriter, req *http.Request, page Page) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Add("Vary", "Accept")
	if WantsText(req) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		page.WriteText(logline.Text(w))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	// An error means that the client has gone away.
	_ = json.MarshalWrite(logline.JSON(w), page, json.Deterministic(true), jsontext.WithIndent("  "), jsontext.AllowInvalidUTF8(true))
}

// WantsText reports whether a request asks for text and not for JSON, by ?format=text or by its
// Accept header.
func WantsText(req *http.Request) bool {
	switch req.URL.Query().Get("format") {
	case "text":
		return true
	case "json":
		return false
	}
	accept := req.Header.Get("Accept")
	text, js := strings.Index(accept, "text/plain"), strings.Index(accept, "application/json")
	return text >= 0 && (js < 0 || text < js)
}

// Readiness is the result of the last readiness probe.
type Readiness struct {
	State string    `json:"state"` // ready, not_ready, draining
	Since time.Time `json:"since"`
	Why   string    `json:"why,omitempty"` // the failing checks and their errors
}

// FlightOnDemand is the reason for a snapshot of the flight recorder that was requested.
const FlightOnDemand = "on_demand"

// Why a reason for a snapshot led to no snapshot.
const (
	FlightInterval = "interval" // the previous snapshot is too recent
	FlightBusy     = "busy"     // another snapshot waits to be taken
	FlightFailed   = "failed"   // the snapshot could not be taken
)

// FlightDrops lists why a reason for a snapshot led to no snapshot.
func FlightDrops() []string { return []string{FlightInterval, FlightBusy, FlightFailed} }
