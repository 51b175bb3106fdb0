package session

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// An outboundReply is what ends the wait for a request of ours.
type outboundReply struct {
	result jsontext.Value
	err    error
}

// response handles the client's answer to an outbound request.
func (s *Session) response(in *Inbound) {
	reply, ok := decodeReply(in)
	reason := mcp.IgnoreMalformed
	if ok {
		var o *outbound
		s.update(func(st *state) {
			key := in.ID.Key()
			if o = st.outbound[key]; o != nil {
				st.removeCall(o, mcp.IgnoreDuplicate)
				return
			}
			reason = mcp.IgnoreUnknownID
			for _, old := range st.endedCalls {
				if old.key == key && key != "" {
					reason = old.late
				}
			}
		})
		if o != nil || reason == mcp.IgnoreUnknownID && s.answerElsewhere(in) {
			s.core.ledger.received(receivedResponse)
			if o != nil {
				o.end(reply)
			}
			return
		}
	}
	s.core.ledger.ignored(receivedResponse, mcp.IgnoredResponse, reason)
	s.core.logger.Debug("response.ignored", "session", s.LogID(), "id", in.ID.String(), "reason", reason)
}

func decodeReply(in *Inbound) (outboundReply, bool) {
	if in.Error == nil {
		return outboundReply{result: in.Result}, in.Result != nil && !in.ID.IsZero()
	}
	var e struct {
		Code    mcp.Code       `json:"code"`
		Message string         `json:"message"`
		Data    jsontext.Value `json:"data"`
	}
	if wire.Unmarshal(in.Error, &e) != nil || in.ID.IsZero() {
		return outboundReply{}, false
	}
	return outboundReply{err: &mcp.ClientError{Code: e.Code, Message: e.Message, Data: e.Data}}, true
}
