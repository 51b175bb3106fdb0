package gosdk

import (
	"encoding/json"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/adapt"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// An arrival has the properties of a message that the SDK does not pass to its middlewares.
type arrival struct {
	id        mcp.ID
	params    []byte
	bytes     int
	transport string // "" if it is not known
	scope     any    // the session or the connection in which the id is unique, or nil
	exchange  *adapt.Exchange
	// authenticated says that the authenticator has let the caller in. Its principal may be nil.
	authenticated bool
	principal     *auth.Principal
}

// arrivalOf returns the arrival of a message. Without [Adapter.HTTP] and [Adapter.Transport] it has
// only what the SDK has decoded.
func (a *Adapter) arrivalOf(method string, req sdk.Request) arrival {
	var m arrival
	if extra := req.GetExtra(); extra != nil {
		if known, ok := a.arrivals.LoadAndDelete(extra); ok {
			return known.(arrival)
		}
		if x, ok := a.exchanges.Load(extra.Header.Get(exchangeHeader)); ok {
			m.exchange = x.(*adapt.Exchange)
			extra.Header = m.exchange.Header() // without our token
			m.scope = m.exchange.Scope()
			m.authenticated, m.principal = m.exchange.Authenticated(), m.exchange.Principal()
		}
		if extra.Header != nil {
			m.transport = "http"
		}
	}
	if raw, ok := m.exchange.Take(method); ok {
		m.id, m.params, m.bytes = raw.ID, raw.Params, raw.Bytes
	} else {
		m.params = reencoded(req)
	}
	return m
}

// reencoded encodes the params that the SDK has decoded.
func reencoded(req sdk.Request) (params []byte) {
	if decoded := req.GetParams(); decoded != nil {
		params, _ = json.Marshal(decoded) // what was decoded can be encoded
	}
	return params
}
