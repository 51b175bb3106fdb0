package server

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"weak"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server/internal/era"
)

// What 2025-11-25 has of its own about pages that a user is asked to open: a word when
// he is done there, and an error that asks for pages. In the modern era the client
// makes its request again when its user says so, and needs neither.

// ElicitationComplete says that the user is done with a page that [Call.Elicit], or an
// error with [mcp.CodeURLElicitationRequired], has asked him to open under this
// ElicitationID, as the page's own server learns: in the callback of a sign-in, say.
// Clients of 2025-11-25 that were asked are told (notifications/elicitation/complete;
// specification of 2025-11-25: "Elicitation"), on the stream of the request that asked,
// or that of its session when the request is over. For all others nothing happens:
// modern clients are not told, and sessions that have ended, or are held by another
// process, have nobody to tell.
//
// It waits for room in the client's stream, at most for the notify time-out and until
// ctx is done; after that the notification is lost, and counted as dropped. The error is that of a client that cannot be told now, such as
// [mcp.ErrPeerGone] if it has no stream open; ElicitationComplete may then be called
// again. A client is told once. A session's last 64 pages are remembered. It
// may be called from any goroutine, in a request or outside.
func (s *Server) ElicitationComplete(ctx context.Context, id string) error {
	params := append(wire.AppendString([]byte(`{"elicitationId":`), id), '}')
	var errs []error
	for sess, asked := range s.pages.find(id) {
		if err := tellPage(ctx, sess, asked.Value(), params); err != nil {
			errs = append(errs, err)
			continue
		}
		s.pages.done(sess, id)
	}
	return errors.Join(errs...)
}

// tellPage tells a client on the stream of its request, which may be nil or over, or on
// the session's own.
func tellPage(ctx context.Context, sess *session.Session, r *session.Request, params []byte) error {
	if r != nil && !r.Settled() && r.TakesNotifications() && r.Notify(mcp.NotificationElicitationComplete, params, "") == nil {
		return nil
	}
	return sess.Notify(ctx, mcp.NotificationElicitationComplete, params, "")
}

// maxPages is how many pages a session remembers to have asked its client to open.
const maxPages = 64

// pages are those that legacy clients were asked to open under an id of the program's.
type pages struct {
	mu sync.Mutex // guards the rest
	// byID has the sessions in which an id was used, and the request. Who calls a session
	// back must not keep the requests that it has had.
	byID      map[string]map[*session.Session]weak.Pointer[session.Request]
	bySession map[*session.Session][]string // ids, the oldest first
}

// asked notes that the client of a request is asked to open a page, before it is.
func (t *pages) asked(r *session.Request, id string) {
	sess := r.Session()
	t.mu.Lock()
	if t.byID == nil {
		t.byID = map[string]map[*session.Session]weak.Pointer[session.Request]{}
		t.bySession = map[*session.Session][]string{}
	}
	ids, known := t.bySession[sess]
	if _, again := t.byID[id][sess]; !again {
		ids = append(ids, id)
	}
	if t.byID[id] == nil {
		t.byID[id] = map[*session.Session]weak.Pointer[session.Request]{}
	}
	t.byID[id][sess] = weak.Make(r)
	if len(ids) > maxPages {
		t.forget(sess, ids[0])
		ids = slices.Delete(ids, 0, 1)
	}
	t.bySession[sess] = ids
	t.mu.Unlock()
	if !known {
		sess.OnClosed(func() { t.leave(sess) })
	}
}

// find returns a copy of who was asked to open a page.
func (t *pages) find(id string) map[*session.Session]weak.Pointer[session.Request] {
	t.mu.Lock()
	defer t.mu.Unlock()
	found := make(map[*session.Session]weak.Pointer[session.Request], len(t.byID[id]))
	for sess, r := range t.byID[id] {
		found[sess] = r
	}
	return found
}

// done forgets a page of which a client was told.
func (t *pages) done(sess *session.Session, id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forget(sess, id)
	if ids, here := t.bySession[sess]; here {
		t.bySession[sess] = slices.DeleteFunc(ids, func(other string) bool { return other == id })
	}
}

// leave forgets a session that has ended.
func (t *pages) leave(sess *session.Session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, id := range t.bySession[sess] {
		t.forget(sess, id)
	}
	delete(t.bySession, sess)
}

// forget takes a page out of byID. The caller holds mu.
func (t *pages) forget(sess *session.Session, id string) {
	delete(t.byID[id], sess)
	if len(t.byID[id]) == 0 {
		delete(t.byID, id)
	}
}

// notePage notes the page of an elicitation that a handler has worded by itself.
func (c *Call) notePage(params jsontext.Value) {
	var p mcp.ElicitParams
	if c.Peer.Version.AtLeast(mcp.Version20251125) && json.Unmarshal(params, &p) == nil && p.ElicitationID != "" {
		c.server.pages.asked(c.core, p.ElicitationID)
	}
}

// urlsRequired gives an error that asks for pages the meaning that it has for the
// caller: clients of 2025-11-25 alone know it, and get an ElicitationID for each page,
// made up where there is none. All others are asked as [Call.Elicit]
// asks, at each return with that error, until the user refuses; who cannot be asked is
// told so. An error whose data cannot be read is the server's fault. All other errors
// are returned as they are.
func (c *Call) urlsRequired(err error) error {
	rpc, _ := mcp.AsError(err)
	if rpc == nil || rpc.Code != mcp.CodeURLElicitationRequired {
		return err
	}
	list, fault := c.pagesOf(rpc)
	if fault != nil {
		return era.Fault{Err: fmt.Errorf("server: the data of the error %q (%d): %w", rpc.Message, rpc.Code, fault)}
	}
	need := mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapability{URL: &struct{}{}}}
	if c.Peer.Era == mcp.Legacy && c.Peer.Version.AtLeast(mcp.Version20251125) {
		if missing, lacks := era.Askable(c.Request).Lacks(need); lacks {
			return fmt.Errorf("%s: %w", rpc.Message, &mcp.NotDeclaredError{Missing: missing})
		}
		for i := range list {
			p := &list[i]
			p.ElicitationID = cmp.Or(p.ElicitationID, rand.Text())
			c.server.pages.asked(c.core, p.ElicitationID)
		}
		return rpc.WithData(mcp.URLElicitationRequiredData{Elicitations: list})
	}
	var errs []error
	for i, p := range list {
		key := fmt.Sprintf("urlElicitationRequired/%d", i)
		if in, modern := c.source().(*stateInput); modern && in.load() == nil && in.refusedPage(key) {
			return mcp.NewError(mcp.CodeInvalidRequest, "%s: the user has refused", rpc.Message)
		}
		p.ElicitationID = ""
		_, err := c.askClient(key, need, question{
			InputRequest: mcp.InputRequest{Method: mcp.MethodElicitationCreate, Params: &p},
			check:        func(jsontext.Value) error { return errPageNotDone },
		})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// errPageNotDone: the handler still wants the page, so that an earlier answer counts for
// nothing.
var errPageNotDone = errors.New("server: the user is not done with the page")

// pagesOf reads the data of an error that asks for pages.
func (c *Call) pagesOf(rpc *mcp.Error) ([]mcp.ElicitParams, error) {
	raw, err := wire.Marshal(nil, rpc.Data)
	if err != nil {
		return nil, err
	}
	var data mcp.URLElicitationRequiredData
	if err := json.Unmarshal(raw, &data); err != nil {
		return nil, err
	}
	if len(data.Elicitations) == 0 {
		return nil, errors.New("there is no elicitation in it")
	}
	for i := range data.Elicitations {
		p := &data.Elicitations[i]
		if p.Mode != mcp.ElicitURL {
			return nil, errors.New("an elicitation must be of mode url")
		}
		if _, err := c.server.forms.check(p); err != nil {
			return nil, err
		}
	}
	return data.Elicitations, nil
}

// refusedPage reports whether the user has refused to open a page, whichever it was that
// the handler has asked for under the key.
func (r *rounds) refusedPage(key string) bool {
	r.mu.Lock()
	a, answered := r.answers[key]
	r.mu.Unlock()
	if !answered {
		return false
	}
	said, err := decodeElicited(a.Value, false)
	return err == nil && said.Action != mcp.ElicitAccept
}
