package gosdk

import (
	"encoding/json"
	"net/http"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vitrine-mcp/vitrine/internal/adapt"
	"github.com/vitrine-mcp/vitrine/internal/report"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// sessions has the legacy sessions with more than one request.
type sessions struct {
	mu   sync.Mutex // guards the rest, and what is in a session
	open map[*sdk.ServerSession]*session
	byID map[string]*session
}

type session struct {
	id    string
	scope any // the connection, or the id
	peer  middleware.Peer
	end   mcp.Cause // "" if it is not known yet
}

// opened adds a session after its initialize. It is removed when the SDK has closed it.
func (s *sessions) opened(core *adapt.Adapter, ss *sdk.ServerSession, m arrival, req *middleware.Request, version mcp.Version) {
	if m.scope == nil && ss.ID() == "" { // its end is not known
		return
	}
	opened := &session{id: ss.ID(), scope: m.scope, peer: declared(ss.InitializeParams())}
	opened.peer.Version = version
	s.mu.Lock()
	known := s.open[ss] != nil
	if !known {
		if s.open == nil {
			s.open, s.byID = map[*sdk.ServerSession]*session{}, map[string]*session{}
		}
		s.open[ss], s.byID[opened.id] = opened, opened
	}
	s.mu.Unlock()
	if known {
		return
	}
	end := core.Telemetry.Session(telemetry.Info{
		Version: version, Transport: req.Peer.Transport, RemoteAddr: req.Peer.Addr, SessionID: opened.id, Client: opened.peer.Client,
	})
	go func() {
		_ = ss.Wait() // the reader of the connection knows the cause
		s.mu.Lock()
		delete(s.open, ss)
		if s.byID[opened.id] == opened {
			delete(s.byID, opened.id)
		}
		cause := opened.end
		s.mu.Unlock()
		if cause == "" {
			cause = mcp.CauseTransportClose
			if core.Closing() {
				cause = mcp.CauseServerShutdown
			}
		}
		end(cause)
	}()
}

// peer describes the client of a session.
func (s *sessions) peer(ss *sdk.ServerSession) middleware.Peer {
	s.mu.Lock()
	open := s.open[ss]
	s.mu.Unlock()
	if open != nil {
		return open.peer
	}
	return declared(ss.InitializeParams())
}

// client returns how the client of a session describes itself, or nil.
func (s *sessions) client(id string) *mcp.Implementation {
	s.mu.Lock()
	defer s.mu.Unlock()
	if open := s.byID[id]; open != nil {
		return open.peer.Client
	}
	return nil
}

// declared describes a client by its initialize.
func declared(params *sdk.InitializeParams) middleware.Peer {
	if params == nil {
		return middleware.Peer{}
	}
	peer := middleware.Peer{Version: mcp.Version(params.ProtocolVersion)}
	if client := params.ClientInfo; client != nil {
		peer.Client = &mcp.Implementation{Name: client.Name, Version: client.Version, Title: client.Title}
	}
	if raw, err := json.Marshal(params.Capabilities); err == nil && params.Capabilities != nil {
		peer.Capabilities = new(mcp.ClientCapabilities)
		_ = json.Unmarshal(raw, peer.Capabilities) // a capability with a wrong type is not declared
	}
	return peer
}

// ended sets why the session on a connection ends. The first cause counts.
func (s *sessions) ended(scope any, cause mcp.Cause) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, open := range s.open {
		if open.scope == scope && open.end == "" {
			open.end = cause
		}
	}
}

// delete calls the SDK to delete a session, which may refuse it.
func (s *sessions) delete(w http.ResponseWriter, req *http.Request, next http.Handler) {
	id, answer := req.Header.Get("Mcp-Session-Id"), &report.Writer{ResponseWriter: w}
	s.mark(id, "", mcp.CauseSessionDelete)
	next.ServeHTTP(answer, req)
	if answer.Status >= 300 {
		s.mark(id, mcp.CauseSessionDelete, "")
	}
}

// mark changes the cause of a session's end.
func (s *sessions) mark(id string, from, to mcp.Cause) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, open := range s.open {
		if open.id == id && open.end == from {
			open.end = to
		}
	}
}
