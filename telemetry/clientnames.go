package telemetry

import (
	"hash/maphash"
	"sync/atomic"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/logline"
)

// clientNames remember what clients call themselves. A modern client says it with each
// request, and a server has few kinds of clients: the same bytes are not read again.
type clientNames struct {
	seed  maphash.Seed
	known [16]atomic.Pointer[clientName]
}

// A clientName is what was read from some bytes.
type clientName struct{ info, name, version string }

// maxKnownInfo bounds what is remembered of one client, in bytes.
const maxKnownInfo = 512

func newClientNames() *clientNames { return &clientNames{seed: maphash.MakeSeed()} }

// of returns the name and the version of a client, cut and fit to print; both are empty if
// the bytes cannot be read. c may be nil: then nothing is remembered.
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
	_ = json.Unmarshal(info, &client) // untrusted and optional: what cannot be read is empty
	return logline.Printable(client.Name, maxName), logline.Printable(client.Version, maxName)
}
