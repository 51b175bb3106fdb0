package audit

import "github.com/vitrine-mcp/vitrine/auth"

// A caller is what a record that waits keeps of its principal: what a line has of it. The claims and scopes of a token
// may be larger than the record, and nothing bounds them.
type caller struct {
	known                           bool // there was a principal
	issuer, subject, tenant, client string
	actors                          []string
}

// forgetPrincipal replaces the principal of a record by what a line has of it.
func (r *Record) forgetPrincipal() {
	p := r.Principal
	if p == nil {
		return
	}
	r.Principal = nil
	r.caller = caller{
		known: true, issuer: cutText(p.Issuer, maxText), subject: cutText(p.Subject, maxText), tenant: cutText(p.Tenant, maxText),
		client: cutText(p.Client, maxText), actors: cutActors(p.Actors),
	}
}

// cutActors shortens a list of actors. A list that is short already is shared with the principal, so that most records
// cost no allocation.
func cutActors(actors []string) []string {
	short := cap(actors) <= maxActors
	for _, a := range actors {
		short = short && len(a) <= maxText
	}
	if short {
		return actors
	}
	kept := make([]string, min(len(actors), maxActors))
	for i := range kept {
		kept[i] = cutText(actors[i], maxText)
	}
	return kept
}

// actorBytes is what an actor takes without its text: the header of the string.
const actorBytes = 16

// size returns how many bytes a caller takes beyond those of its record.
func (c *caller) size() int {
	n := len(c.issuer) + len(c.subject) + len(c.tenant) + len(c.client)
	for _, a := range c.actors {
		n += actorBytes + len(a)
	}
	return n
}

// principalsAtOnce is the number of principals whose memory a queue allocates together.
const principalsAtOnce = 32

// principal returns the principal of a record for a sink, or nil if there was none. A sink may copy a record with the
// pointer, so its memory is not used again.
func (q *queue) principal(c *caller) *auth.Principal {
	if !c.known {
		return nil
	}
	if len(q.principals) == 0 {
		q.principals = make([]auth.Principal, principalsAtOnce)
	}
	p := &q.principals[0]
	q.principals = q.principals[1:]
	*p = auth.Principal{Issuer: c.issuer, Subject: c.subject, Tenant: c.tenant, Client: c.client, Actors: c.actors}
	return p
}
