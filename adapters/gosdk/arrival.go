package gosdk

import (
	"encoding/json"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vitrine-mcp/vitrine/internal/adapt"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// An arrival is what is known of a message, which the SDK does not hand to its
// middlewares.
type arrival struct {
	id        mcp.ID
	params    []byte
	bytes     int
	transport string // "" if it is not known
	scope     any    // the session or the connection in which the id is unique, or nil
	exchange  *adapt.Exchange
}

// arrivalOf finds out how a message has arrived. Without [Adapter.HTTP] and
// [Adapter.Transport] no more is known of it than what the SDK has decoded.
func (a *Adapter) arrivalOf(method string, req sdk.Request) arrival {
	var m arrival
	if extra := req.GetExtra(); extra != nil {
		if known, ok := a.arrivals.LoadAndDelete(extra); ok {
			return known.(arrival)
		}
		if x, ok := a.exchanges.Load(extra.Header.Get(exchangeHeader)); ok {
			m.exchange = x.(*adapt.Exchange)
			extra.Header = m.exchange.Header() // as it was sent
			m.scope = m.exchange.Scope()
		}
		if extra.Header != nil {
			m.transport = "http"
		}
	}
	if raw, ok := m.exchange.Take(method); ok {
		m.id, m.params, m.bytes = raw.ID, raw.Params, raw.Bytes
	} else if params := req.GetParams(); params != nil {
		m.params, _ = json.Marshal(params) // what has been decoded can be encoded
	}
	return m
}
