package service

import (
	"encoding/json"
	"fmt"
	"net/http"
)

func plain(w http.ResponseWriter, status int, text string) {
	uncached(w, "text/plain; charset=utf-8")
	w.WriteHeader(status)
	fmt.Fprintln(w, text)
}

// uncached sets the headers of an answer that must not be cached.
func uncached(w http.ResponseWriter, contentType string) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("X-Content-Type-Options", "nosniff")
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
