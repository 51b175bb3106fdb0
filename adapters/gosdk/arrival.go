package gosdk

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"unsafe"
	"weak"

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

// arrivals has the arrivals of messages by their Extra. A message may never reach our middleware, or reach
// it twice, so an arrival is removed when the garbage collector finds that the SDK has dropped the Extra.
type arrivals struct {
	sync.Map // by weak.Pointer[sdk.RequestExtra]: arrival
}

// add adds the arrival of a message. m must not refer to extra.
func (s *arrivals) add(extra *sdk.RequestExtra, m arrival) {
	key := weak.Make(extra)
	s.Store(key, m)
	runtime.AddCleanup(extra, func(key weak.Pointer[sdk.RequestExtra]) { s.Delete(key) }, key)
}

// of returns the arrival of a message.
func (s *arrivals) of(extra *sdk.RequestExtra) (m arrival, ok bool) {
	known, ok := s.Load(weak.Make(extra))
	if ok {
		m = known.(arrival)
	}
	return m, ok
}

// exchangeHeader is the header with the token of an exchange. The SDK passes only the HTTP header of a
// request to its middlewares.
const exchangeHeader = "Vitrine-Exchange"

// exchanges has the exchanges whose messages the SDK may dispatch. It does so after the exchange has ended
// if the client has disconnected, and for notifications. So an exchange is removed when the garbage
// collector finds that nothing refers to the bytes of its token. Clones of a header share these bytes.
type exchanges struct {
	sync.Map // by key: *adapt.Exchange
}

// add adds an exchange, and its token to the header that the SDK gets. The caller must keep the token alive
// until the HTTP request has ended, because a handler may replace it with a copy.
func (s *exchanges) add(header http.Header, x *adapt.Exchange) (token string) {
	key := rand.Text()
	token = strings.Clone(key) // the key must not keep the bytes of the token alive
	header[exchangeHeader] = []string{token}
	s.Store(key, x)
	runtime.AddCleanup(unsafe.StringData(token), func(key string) { s.Delete(key) }, key)
	return token
}

// of returns the exchange of a header, or nil.
func (s *exchanges) of(header http.Header) *adapt.Exchange {
	x, _ := s.Load(header.Get(exchangeHeader))
	known, _ := x.(*adapt.Exchange)
	return known
}

// arrivalOf returns the arrival of a message. Without [Adapter.HTTP] and [Adapter.Transport] it has
// only what the SDK has decoded.
func (a *Adapter) arrivalOf(method string, req sdk.Request) (m arrival) {
	extra := req.GetExtra()
	if extra == nil {
		m.params = reencoded(req)
		return m
	}
	if known, ok := a.arrivals.of(extra); ok {
		return known
	}
	if m.exchange = a.exchanges.of(extra.Header); m.exchange != nil {
		extra.Header = m.exchange.Header() // without our token
		m.scope = m.exchange.Scope()
		m.authenticated, m.principal = m.exchange.Authenticated(), m.exchange.Principal()
		defer func() { a.arrivals.add(extra, m) }()
	}
	if extra.Header != nil {
		m.transport = "http"
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
