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
