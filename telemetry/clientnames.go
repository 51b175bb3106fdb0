package telemetry

import (
	"hash/maphash"
	"sync/atomic"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/logline"
)

// clientNames caches the names and versions of clients. A modern client sends them with each
// request, and a server has few kinds of clients.
type clientNames struct {
	seed  maphash.Seed
	known [16]atomic.Pointer[clientName]
}

// A clientName is the result of reading info.
type clientName struct{ info, name, version string }

// maxKnownInfo bounds the info of one client in the cache, in bytes.
const maxKnownInfo = 512

func newClientNames() *clientNames { return &clientNames{seed: maphash.MakeSeed()} }

// of returns the name and the version of a client, cut and printable. Both are empty if the
// bytes cannot be read. c may be nil; then nothing is cached.
func (c *clientNames) of(info jsontext.Value) (name, version string) {
	if c == nil || len(info) > maxKnownInfo {
		return readClient(info)
	}
	place := &c.known[maphash.Bytes(c.seed, info)%uint64(len(c.known))]
	if known := place.Load(); known != nil && known.info == string(info) {
		return known.name, known.version
	}
	name, version = readClient(info)
	place.Store(&clientName{string(info), name, version})
	return name, version
}

func readClient(info jsontext.Value) (name, version string) {
	var client struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	}
	_ = json.Unmarshal(info, &client) // untrusted and optional: an error leaves the name empty
	return logline.Printable(client.Name, maxName), logline.Printable(client.Version, maxName)
}
