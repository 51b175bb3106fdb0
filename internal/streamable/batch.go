package streamable

import (
	"net/http"
	"slices"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/stream"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// batch serves a body that is an array, if the client's session has agreed on a revision with
// batches. Otherwise it returns false, and the array is malformed like any other body that
// is not a message.
func (x *exchange) batch(body []byte) bool {
	id := x.r.Header.Get(headerSessionID)
	version := x.r.Header.Get(headerVersion)
	if era, known := mcp.Version(version).Era(); id == "" || version != "" && (!known || era == mcp.Modern) || !x.core.Serves(mcp.Legacy) {
		return false
	}
	for _, name := range []string{headerMethod, headerName} {
		if len(x.r.Header[name]) > 0 {
			x.refuse(http.StatusBadRequest, mcp.RefuseHeader, mismatch("%s cannot be true of a batch", name))
			return true
		}
	}
	s := x.sessionOrRefuse(id)
	if s == nil { // the client must learn this, or it would never begin a new session
		return true
	}
	if !s.TakesBatches() {
		return false
	}
	members, bad := session.SplitBatch(body, x.core.Limits().Wire(), session.Inbound{
		Conn: x.conn, Values: x.r.Context(), Header: x.r.Header, Body: x.held,
	})
	if bad != nil {
		x.malformed(bad)
		return true
	}
	x.batchPost(s, members)
	return true
}

// batchPost serves the messages of a batch (specification 2025-03-26: "Sending
// Messages to the Server"). A client that takes an event stream gets each answer as
// soon as it is ready. Any other client gets all answers in one array. If no request is
// admitted, the response has the status that a single rejected request would have.
func (x *exchange) batchPost(s *session.Session, members []session.Member) {
	st := x.stream(mcp.Legacy)
	apart := x.events
	x.turn.Give() // the batch may wait for handlers of notifications
	admitted := s.ReceiveBatchOn(members, st, apart)
	sink := x.sink(mcp.Legacy)
	switch {
	case admitted == 0:
		sink.era = mcp.Modern
	case apart:
		st.EventsOnly()
		sink.stream(&stream.Message{Kind: stream.Notification})
	}
	err := x.pump(st, sink)
	switch {
	case sink.started || x.r.Context().Err() != nil:
	case err != nil:
		x.unanswered(mcp.Legacy, st.Reason())
	case !slices.ContainsFunc(members, func(m session.Member) bool { return m.Bad == nil }):
		x.fail(http.StatusBadRequest, members[0].Bad.RPC())
	default: // there was no request, or the client has cancelled all of them
		x.bare(http.StatusAccepted, nil)
	}
}
