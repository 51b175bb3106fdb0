package ask

import (
	"slices"
	"sync"
	"weak"

	"github.com/vitrine-mcp/vitrine/internal/session"
)

// maxPages is how many pages are remembered for one session.
const maxPages = 64

// pages are the pages that legacy clients were asked to open under an ElicitationID. Each
// session has a list, the oldest page first.
type pages struct {
	mu        sync.Mutex // guards bySession
	bySession map[*session.Session][]page
}

// A page has a weak pointer to the request that has asked for it, so that the request can be
// collected.
type page struct {
	id    string
	asked weak.Pointer[session.Request]
}

// add notes that the client of a request will be asked to open a page.
func (p *pages) add(r *session.Request, id string) {
	sess := r.Session()
	p.mu.Lock()
	if p.bySession == nil {
		p.bySession = map[*session.Session][]page{}
	}
	list, known := p.bySession[sess]
	if i := slices.IndexFunc(list, func(other page) bool { return other.id == id }); i >= 0 {
		list[i].asked = weak.Make(r)
	} else {
		list = append(list, page{id, weak.Make(r)})
	}
	p.bySession[sess] = list[max(len(list)-maxPages, 0):]
	p.mu.Unlock()
	if !known {
		sess.OnClosed(func() { p.forget(sess) })
	}
}

// find returns the sessions whose clients were asked to open a page, each with the request.
func (p *pages) find(id string) map[*session.Session]weak.Pointer[session.Request] {
	p.mu.Lock()
	defer p.mu.Unlock()
	found := map[*session.Session]weak.Pointer[session.Request]{}
	for sess, list := range p.bySession {
		for _, page := range list {
			if page.id == id {
				found[sess] = page.asked
			}
		}
	}
	return found
}

// done removes a page when the client was told that the user is done with it.
func (p *pages) done(sess *session.Session, id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if list, open := p.bySession[sess]; open {
		p.bySession[sess] = slices.DeleteFunc(list, func(page page) bool { return page.id == id })
	}
}

// forget removes a session that was closed.
func (p *pages) forget(sess *session.Session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.bySession, sess)
}
