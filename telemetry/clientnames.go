package telemetry

import (
	"hash/maphash"
	"sync/atomic"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// clientNames remember what clients call themselves. A modern client says it with each
// request, and a server has few kinds of clients: the same bytes are not read again.
type clientNames struct {
	seed  maphash.Seed
	known [16]atomic.Pointer[clientName]
}

// A clientName is what [session.ClientOf] has made of some bytes.
type clientName struct{ info, name, version string }

// maxKnownInfo bounds what is remembered of one client, in bytes.
const maxKnownInfo = 512

func newClientNames() *clientNames { return &clientNames{seed: maphash.MakeSeed()} }

// of is [session.ClientOf].
func (c *clientNames) of(in *session.Inbound, s *session.Session) (name, version string) {
	info := in.Meta.ClientInfo
	if in.Era != mcp.Modern || len(info) == 0 || len(info) > maxKnownInfo {
		return session.ClientOf(in, s)
	}
	place := &c.known[maphash.Bytes(c.seed, info)%uint64(len(c.known))]
	if known := place.Load(); known != nil && known.info == string(info) {
		return known.name, known.version
	}
	name, version = session.ClientOf(in, s)
	place.Store(&clientName{string(info), name, version})
	return name, version
}
