package streamable

import (
	"net/http"
	"net/url"
	"strings"
)

// The methods and headers that pages of allowed origins may use and read (Fetch standard, "CORS
// protocol"). They are those of the protocol; further ones are in Config.AllowedHeaders. There
// is no Access-Control-Allow-Credentials: MCP has no cookies, and the Authorization header,
// which a page sets itself, does not need it.
const (
	corsMethods = "GET, POST, DELETE, OPTIONS"
	corsHeaders = "Content-Type, Accept, Authorization, Mcp-Protocol-Version, Mcp-Session-Id, Mcp-Method, Mcp-Name, " +
		"Last-Event-ID, traceparent, tracestate, baggage"
	corsExposed = "Mcp-Session-Id, Mcp-Protocol-Version, WWW-Authenticate, Retry-After, Allow"
	corsMaxAge  = "7200" // seconds; Chromium remembers a preflight no longer than that
	paramPrefix = "Mcp-Param-"
)

// cors lets the page that sends the request read the response. The edge has allowed its
// origin before, or there is none. A value that is not an origin is not repeated.
func (x *exchange) cors() {
	origins := x.r.Header["Origin"]
	if len(origins) != 1 || !isOrigin(origins[0]) {
		return
	}
	h := x.w.Header()
	if named(x.edge.origins, "*") {
		h.Set("Access-Control-Allow-Origin", "*")
	} else {
		h.Set("Access-Control-Allow-Origin", origins[0])
		h.Add("Vary", "Origin")
	}
	h.Set("Access-Control-Expose-Headers", corsExposed)
}

// preflight answers a browser that asks whether a page may send a request. It returns false
// if the exchange is something else.
func (x *exchange) preflight() bool {
	h := x.w.Header()
	if x.r.Method != http.MethodOptions || h.Get("Access-Control-Allow-Origin") == "" ||
		x.r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	h.Del("Access-Control-Expose-Headers") // there is nothing to read
	h.Set("Access-Control-Allow-Methods", corsMethods)
	h.Set("Access-Control-Allow-Headers", strings.Join(append([]string{corsHeaders}, x.allowedHeaders...), ", ")+askedParams(x.r.Header.Values("Access-Control-Request-Headers")))
	h.Set("Access-Control-Max-Age", corsMaxAge)
	h.Add("Vary", "Access-Control-Request-Headers")
	x.bare(http.StatusNoContent, nil)
	return true
}

// askedParams returns the Mcp-Param headers among those that a browser asks for, each after
// a comma. Tools choose their names, so that no list has them.
func askedParams(asked []string) string {
	var params strings.Builder
	for _, line := range asked {
		for name := range strings.SplitSeq(line, ",") {
			name = strings.TrimSpace(name)
			if len(name) > len(paramPrefix) && strings.EqualFold(name[:len(paramPrefix)], paramPrefix) && isToken(name) {
				params.WriteString(", " + name)
			}
		}
	}
	return params.String()
}

// isOrigin reports whether a value is an origin as browsers write it: a scheme, a
// host and perhaps a port, or "null".
func isOrigin(value string) bool {
	if value == "null" {
		return true
	}
	for i := range len(value) {
		if c := value[i]; c <= ' ' || c > '~' || strings.IndexByte(`"',;<>\`, c) >= 0 {
			return false
		}
	}
	u, err := url.Parse(value)
	return err == nil && u.Scheme != "" && u.Host != "" && u.Scheme+"://"+u.Host == value
}
