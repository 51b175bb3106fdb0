package service

import (
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
)

// adminPath reports whether a path on the admin listener belongs to the service.
func adminPath(path string) bool {
	return path == "/{$}" || below(pathMetrics, pathLive, pathReady, "/debug/requests", "/debug/traces", pathDebugLive,
		pathProfiles, flightPath, console.Prefix)(path)
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
