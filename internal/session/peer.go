package session

import (
	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A Peer is what a legacy client and the server have agreed on in initialize. It
// is immutable.
type Peer struct {
	Version      mcp.Version
	Client       mcp.Implementation
	Capabilities mcp.ClientCapabilities
}

// checkClient refuses a modern request whose client says too much of itself.
func (c *Core) checkClient(in *Inbound) {
	most := c.limits.MaxClientBytes
	if in.Era == mcp.Modern && in.Refusal == nil && len(in.Meta.ClientCapabilities)+len(in.Meta.ClientInfo) > most {
		in.Refusal = c.ClientTooLarge()
	}
}

// ClientTooLarge returns the error for a client that says too much of itself, and counts it.
func (c *Core) ClientTooLarge() *mcp.Error {
	c.ledger.limitReached(limits.NameClientBytes)
	return mcp.NewError(mcp.CodeInvalidParams, "what the client says of itself (capabilities and client info) takes more than %d bytes, which is all that %s allows",
		c.limits.MaxClientBytes, limits.NameClientBytes).WithData(mcp.ErrorData{Limit: limits.NameClientBytes})
}

// wantsNullID reports whether an error without an id has an id of null for the
// peer; p may be nil.
func (p *Peer) wantsNullID() bool { return p != nil && !p.Version.AtLeast(mcp.Version20251125) }

// clientTexts returns what the client says of itself, cut and fit to print.
func (p *Peer) clientTexts() (name, version string) {
	return logline.Printable(p.Client.Name, maxClientText), logline.Printable(p.Client.Version, maxClientText)
}

// maxClientText bounds the bytes that are shown of a client's name, and of its version.
const maxClientText = 64

// ClientOf returns what the sender of a message says of itself, cut to 64 bytes each and
// fit to print: of a modern client in the message, of a legacy one at the beginning of the
// session s, which may be nil. It is not to be trusted.
func ClientOf(in *Inbound, s *Session) (name, version string) {
	if in.Era == mcp.Modern {
		var info struct {
			Name    string `json:"name"`
			Version string `json:"version"`
		}
		if in.Meta.ClientInfo != nil {
			_ = wire.Unmarshal(in.Meta.ClientInfo, &info) // untrusted and optional: what cannot be read is empty
		}
		name, version = info.Name, info.Version
	} else if s != nil {
		if p := s.Peer(); p != nil {
			name, version = p.Client.Name, p.Client.Version
		}
	}
	return logline.Printable(name, maxClientText), logline.Printable(version, maxClientText)
}
