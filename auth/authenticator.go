package auth

import (
	"context"
	"crypto/tls"
)

// A Caller describes a caller before it is authenticated. It must not be changed.
type Caller struct {
	// Transport is "http", "stdio", "memory", or the name of another transport.
	Transport string
	// Header holds the header of the HTTP exchange. It can be assigned to an http.Header.
	// It is nil on byte streams, whose callers are known by configuration only.
	Header map[string][]string
	// RemoteAddr is the address of the caller as host:port, or "". Behind trusted proxies it is the
	// address that they forward, in most cases without a port.
	RemoteAddr string
	// PeerAddr is the address of the other end of the connection as host:port, or "": the
	// caller's or that of a proxy.
	PeerAddr string
	// TLS describes the connection of an HTTP exchange over TLS. May be nil.
	TLS *tls.ConnectionState
}

// An Authenticator finds the principal of a caller. The server calls it once for each
// HTTP exchange that may carry a message, before it reads the body, and once for each
// byte stream, before it reads the first message. The context is that of the exchange or
// of the call that serves the byte stream. It must be safe for concurrent use.
// Only the authenticator sees the credentials: the server removes the header Authorization
// before middlewares and handlers get the request.
//
// Authenticate returns nil without an error for a caller that needs no principal. All callers
// without a principal count as one caller. An error refuses the caller. A [*mcp.Refusal] says
// how. Any other error is answered with the status 401 and the reason "unauthenticated", and
// its text is for the operator only. A panic is contained and answered with the status 503.
//
// [*mcp.Refusal]: https://pkg.go.dev/github.com/vitrine-mcp/vitrine/mcp#Refusal
type Authenticator interface {
	Authenticate(ctx context.Context, caller *Caller) (*Principal, error)
}

// AuthenticatorFunc makes an [Authenticator] of a function.
type AuthenticatorFunc func(ctx context.Context, caller *Caller) (*Principal, error)

// Authenticate calls f.
func (f AuthenticatorFunc) Authenticate(ctx context.Context, caller *Caller) (*Principal, error) {
	return f(ctx, caller)
}
