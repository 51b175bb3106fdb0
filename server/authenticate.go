package server

import "github.com/vitrine-mcp/vitrine/auth"

// WithAuthenticator finds out who calls: once for each HTTP exchange that may carry a
// message, with its context (in which an http.Handler around [Server.Handler] may have left
// what it knows) and its header, before the body is read; and once for each byte stream,
// with the context of [Server.ServeStdio] or the like. A caller that is refused is answered
// with the status of the refusal; a byte stream is closed. [middleware.Request].Principal has
// what was found.
//
// What outlives one request (the state of multi round-trip requests, tasks, legacy HTTP
// sessions with their streams) is bound to its principal, by issuer and subject: for all
// others it does not exist. Without the option all callers count as one.
func WithAuthenticator(a auth.Authenticator) Option {
	return optionFunc(func(c *config) { c.authenticator = a })
}
