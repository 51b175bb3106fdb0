package service

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/vitrine-mcp/vitrine/service/console"
)

// Paths that are used in several places.
const (
	pathMetrics   = "/metrics"
	pathLive      = "/livez"
	pathReady     = "/readyz"
	pathDebugLive = "/debug/live"
	pathProfiles  = "/debug/pprof/"

	pathGoroutines = "/debug/goroutines"
)

// adminPath reports whether a path on the admin listener belongs to the service.
func adminPath(path string) bool {
	return path == "/{$}" || below(pathMetrics, pathLive, pathReady, "/debug/requests", "/debug/traces", "/debug/changes", "/debug/events", "/debug/limits", pathDebugLive,
		pathProfiles, pathGoroutines, pathActions, flightPath, console.Prefix)(path)
}

const flightPath = "/debug/flight"

// below returns a function that reports whether a path is one of roots or lies below one.
func below(roots ...string) func(path string) bool {
	return func(path string) bool {
		return slices.ContainsFunc(roots, func(root string) bool {
			root = strings.TrimSuffix(root, "/")
			return path == root || strings.HasPrefix(path, root+"/")
		})
	}
}

func plain(w http.ResponseWriter, status int, text string) {
	uncached(w, "text/plain; charset=utf-8")
	w.WriteHeader(status)
	fmt.Fprintln(w, text)
}

// uncached sets the headers of an answer that must not be cached.
func uncached(w http.ResponseWriter, contentType string) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Cache-Control", "no-store")
}

func binary(w http.ResponseWriter, name string) {
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	uncached(w, "application/json")
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	_ = enc.Encode(v) // an error means that the client has gone away
}
