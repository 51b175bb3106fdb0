package session

import (
	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// eras says for each era whether it is turned off.
type eras [2]bool

// ServeOnly has requests of other eras rejected. It must be called before the first message.
func (c *Core) ServeOnly(served ...mcp.Era) {
	c.unserved = eras{true, true}
	for _, e := range served {
		c.unserved[e] = false
	}
}

// Serves reports whether requests of an era are served.
func (c *Core) Serves(e mcp.Era) bool { return !c.unserved[e] }

// Versions returns the revisions that are served, the newest first.
func (c *Core) Versions() (served []mcp.Version) {
	for _, e := range []mcp.Era{mcp.Modern, mcp.Legacy} {
		if c.Serves(e) {
			served = append(served, mcp.Versions(e)...)
		}
	}
	return served
}

// WaysIn tells a client how to begin.
func (c *Core) WaysIn() string {
	switch {
	case !c.Serves(mcp.Legacy):
		return wire.ModernWayIn
	case !c.Serves(mcp.Modern):
		return wire.LegacyWayIn
	}
	return wire.LegacyWayIn + ", or " + wire.ModernWayIn
}

// maxVersionShown bounds the bytes of a client's version in an error.
const maxVersionShown = 64

// EraForbidden is the answer to a request of an era that the server does not serve. The error for
// a modern request is one that a client of both eras takes for that of a legacy server, so that it
// goes on with initialize.
func (c *Core) EraForbidden(in *Inbound) *mcp.Error {
	requested, code := in.Version, mcp.CodeInvalidRequest
	if in.Era == mcp.Legacy {
		code = mcp.CodeUnsupportedVersion
	}
	if in.Method == mcp.MethodInitialize {
		var params struct {
			ProtocolVersion mcp.Version `json:"protocolVersion"`
		}
		_ = wire.Unmarshal(in.Params, &params) // untrusted: what cannot be read is empty
		requested = params.ProtocolVersion
	} else if requested == "" {
		requested = mcp.Version(in.Meta.ProtocolVersion)
	}
	return mcp.NewError(code, "this server does not serve %s clients: %s", in.Era, c.WaysIn()).WithData(
		mcp.UnsupportedVersionData{Supported: c.Versions(), Requested: logline.Printable(string(requested), maxVersionShown)})
}
