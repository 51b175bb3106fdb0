package adapt

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// HTTP wraps the handler of an MCP endpoint. Its requests have an [Exchange], and telemetry has their
// address. Up to 1 MiB of a body is read ahead. With an authenticator the caller is known before the
// body is read; with policies a caller that needs scopes is challenged.
func (a *Adapter) HTTP(next http.Handler) http.Handler {
	return a.Telemetry.HTTP(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		x := &Exchange{request: req}
		if a.Authenticates() && !isPreflight(req) {
			if a.servesMetadata(w, req) {
				return
			}
			var stop func()
			if w, stop = a.letIn(w, x); w == nil {
				return
			}
			defer stop()
		}
		if req.Method == http.MethodPost && req.Body != nil {
			x.read(x.request)
		}
		a.notice(x.Scope(), x.messages)
		defer func() { // net/http cancels the context next, for every request
			x.gone.Store(req.Context().Err() != nil)
			x.over.Store(true)
		}()
		x.values = context.WithValue(x.request.Context(), exchangeKey{}, x)
		if a.Authorizes() && a.challenged(w, x) {
			return
		}
		next.ServeHTTP(w, x.request.WithContext(x.values))
	}))
}

// isPreflight reports whether a browser asks what a page may send. It sends no credentials.
func isPreflight(req *http.Request) bool {
	return req.Method == http.MethodOptions && req.Header.Get("Origin") != "" && req.Header.Get("Access-Control-Request-Method") != ""
}

// servesMetadata serves the metadata of the resource, if the authenticator has some and it is asked for.
func (a *Adapter) servesMetadata(w http.ResponseWriter, req *http.Request) bool {
	return servesMetadata(a.guard.authenticator, w, req)
}

func servesMetadata(by auth.Authenticator, w http.ResponseWriter, req *http.Request) bool {
	switch by := by.(type) {
	case interface {
		MetadataPaths() []string
		Handler() http.Handler
	}:
		if !slices.Contains(by.MetadataPaths(), req.URL.EscapedPath()) {
			return false
		}
		by.Handler().ServeHTTP(w, req)
		return true
	case interface{ Unwrap() []auth.Authenticator }: // auth.FirstOf
		return slices.ContainsFunc(by.Unwrap(), func(one auth.Authenticator) bool { return servesMetadata(one, w, req) })
	}
	return false
}

// letIn finds out who calls. It returns nil if it has answered the request. The request then has no
// credentials any more, and the SDK's id of its session.
func (a *Adapter) letIn(w http.ResponseWriter, x *Exchange) (_ http.ResponseWriter, stop func()) {
	req := x.request
	p, refused := a.guard.authenticate(req.Context(), &auth.Caller{
		Transport: "http", Header: req.Header, RemoteAddr: req.RemoteAddr, PeerAddr: req.RemoteAddr, TLS: req.TLS,
	})
	if refused != nil {
		refuse(w, mcp.ID{}, refused)
		return nil, nil
	}
	ctx, stop := a.untilExpiry(context.WithValue(req.Context(), principalKey{}, p), req, p)
	req = req.Clone(ctx)
	req.Header.Del("Authorization")
	x.request, x.principal, x.authenticated = req, p, true
	if era, _ := mcp.Version(req.Header.Get("Mcp-Protocol-Version")).Era(); era == mcp.Modern {
		req.Header.Del(headerSessionID) // there are no sessions, and SDKs ignore it
	}
	if sealed := req.Header.Get(headerSessionID); sealed != "" {
		id, genuine, own := a.guard.sessions.open(sealed, p)
		if genuine && !own {
			a.guard.foreignSession(p, req)
		}
		if !own { // the text is that of the SDK for a session that has ended
			stop()
			http.Error(w, a.UnknownSession, http.StatusNotFound)
			return nil, nil
		}
		req.Header.Set(headerSessionID, id)
	}
	return &sealingWriter{ResponseWriter: w, seal: func(id string) string { return a.guard.sessions.seal(id, p) }}, stop
}

// errTokenExpired is the cause with which the context of a stream ends whose token has expired.
var errTokenExpired = errors.New("the token has expired")

// untilExpiry returns a context that ends with the token of the caller, if the client only listens.
func (a *Adapter) untilExpiry(ctx context.Context, req *http.Request, p *auth.Principal) (context.Context, func()) {
	if req.Method != http.MethodGet || p == nil || p.Expires.IsZero() {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(time.Until(p.Expires), func() {
		a.guard.streamExpired(session.StreamGet, p)
		cancel(errTokenExpired)
	})
	return ctx, func() {
		timer.Stop()
		cancel(nil)
	}
}

// refuse answers with a refusal.
func refuse(w http.ResponseWriter, id mcp.ID, refused *mcp.Refusal) {
	h := w.Header()
	if after := refused.RetryAfterSeconds(); after > 0 {
		h.Set("Retry-After", strconv.Itoa(after))
	}
	if refused.Challenge != "" {
		h.Set("WWW-Authenticate", refused.Challenge)
	}
	h.Set("Content-Type", "application/json")
	w.WriteHeader(int(refused.Code()))
	if id.IsZero() {
		_, _ = w.Write(wire.AppendErrorNullID(nil, refused.RPC()))
		return
	}
	_, _ = w.Write(wire.AppendError(nil, id, refused.RPC()))
}

// challenged asks the policies about the request in the body, and challenges the caller if it needs
// scopes: the SDK cannot answer with the status 403. What is denied is answered later.
func (a *Adapter) challenged(w http.ResponseWriter, x *Exchange) bool {
	if len(x.messages) != 1 || len(x.messages[0].ID) == 0 || slices.Contains(lists, x.messages[0].Method) {
		return false
	}
	m := &x.messages[0]
	params, _ := ReadParams(m.Method, m.Params) // agreed
	req := &middleware.Request{
		Route: middleware.NewRoute(m.Method, "", ""), ID: ParseID(m.ID), Method: m.Method, Target: params.Target, Params: m.Params,
		Header: x.Header(), Peer: a.peerOf(x, params), Principal: x.principal,
	}
	x.admission = a.ask(x.values, req)
	refused, ok := mcp.AsRefusal(x.admission.err)
	if !ok {
		return false
	}
	a.rejected(x.values, x, req, params, x.admission, m.size)
	refuse(w, req.ID, refused)
	return true
}

// peerOf describes the sender of a request in the body.
func (a *Adapter) peerOf(x *Exchange, params Params) middleware.Peer {
	id := x.Header().Get(headerSessionID)
	peer := middleware.Peer{Transport: "http", Addr: x.request.RemoteAddr, SessionID: id, Version: params.Version}
	if peer.Version == "" {
		peer.Version = mcp.Version(x.Header().Get("Mcp-Protocol-Version"))
	}
	peer.Era, _ = peer.Version.Era()
	if id != "" && a.ClientOf != nil && params.Version == "" {
		peer.Client = a.ClientOf(id)
	}
	return peer
}

// rejected records a request that policies do not let pass and that the SDK does not serve. It returns
// the error for the caller.
func (a *Adapter) rejected(ctx context.Context, x *Exchange, req *middleware.Request, params Params, d *admission, bytes int) *mcp.Error {
	call := a.NewCall(ctx, x, Cancels{})
	call.Begin(req, params, nil, bytes)
	call.admission = d
	rpc := Plain(d.err)
	if refused, ok := mcp.AsRefusal(d.err); ok {
		rpc = refused.RPC()
	} else if e, ok := mcp.AsError(d.err); ok {
		rpc = e
	}
	call.Failed(d.err)
	call.End(telemetry.Outcome{Rejected: mcp.RejectRefused, Err: rpc})
	return rpc
}

type principalKey struct{}

// PrincipalOf returns the principal of the caller whose request a context belongs to, or nil.
func PrincipalOf(ctx context.Context) *auth.Principal {
	p, _ := ctx.Value(principalKey{}).(*auth.Principal)
	return p
}
