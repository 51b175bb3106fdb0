package mcp

import (
	"errors"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// ErrInputRequired is matched by the error with which a handler stops because it
// needs something of the client first: the user, the model or the roots. The
// handler returns it; the server asks, and calls the handler again with the answer.
var ErrInputRequired = errors.New("mcp: input of the client is required")

// An InputRequest is one question to the client: [MethodElicitationCreate],
// [MethodSamplingCreateMessage] or [MethodRootsList] with its params.
type InputRequest struct {
	Method string `json:"method"`
	Params any    `json:"params,omitzero"`
}

// UnmarshalJSONFrom implements json.UnmarshalerFrom: Params stays JSON, a [jsontext.Value].
func (r *InputRequest) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	var members struct {
		Method string         `json:"method"`
		Params jsontext.Value `json:"params"`
	}
	err := json.UnmarshalDecode(dec, &members)
	*r = InputRequest{Method: members.Method}
	if members.Params != nil {
		r.Params = members.Params
	}
	return err
}

// InputRequiredResult asks a modern client for input (specification: "Multi
// Round-Trip Requests"). The client answers by making its request again.
type InputRequiredResult struct {
	InputRequests map[string]InputRequest `json:"inputRequests,omitempty"`
	RequestState  string                  `json:"requestState,omitempty"`
	ResultMeta
}

// ResultType returns "input_required".
func (*InputRequiredResult) ResultType() string { return "input_required" }

// ElicitParams asks the user for something (elicitation/create).
type ElicitParams struct {
	// Mode is [ElicitForm], which is the default, or [ElicitURL].
	Mode    ElicitMode `json:"mode,omitempty"`
	Message string     `json:"message"`
	// RequestedSchema describes the form: an object with flat primitive properties.
	RequestedSchema jsontext.Value `json:"requestedSchema,omitzero"`
	// URL is the page that the user is asked to open, in mode url.
	URL string `json:"url,omitempty"`
	// ElicitationID names the page for legacy clients in mode url: the server uses this id to
	// tell them that the user is done there. It must be unique for each page and user. If it
	// is empty, the server makes one up, and cannot tell the client later. Modern clients do
	// not see it.
	ElicitationID string `json:"elicitationId,omitempty"`
}

// URLElicitationRequiredData is the data of an [Error] with
// [CodeURLElicitationRequired]: the pages, of mode url, that the user must open before
// the request can be served.
type URLElicitationRequiredData struct {
	Elicitations []ElicitParams `json:"elicitations"`
}

// An ElicitMode is the way in which the user is asked.
type ElicitMode string

const (
	ElicitForm ElicitMode = "form"
	ElicitURL  ElicitMode = "url"
)

// ElicitResult is the user's reply.
type ElicitResult struct {
	Action ElicitAction `json:"action"`
	// Content is the filled form; nil unless Action is [ElicitAccept] in mode form.
	Content jsontext.Value `json:"content,omitzero"`
}

// An ElicitAction is the user's decision about a question.
type ElicitAction string

const (
	ElicitAccept  ElicitAction = "accept"
	ElicitDecline ElicitAction = "decline" // the user said no
	ElicitCancel  ElicitAction = "cancel"  // the user gave no answer
)

// A Root is a place in the client's file system that the server may work on.
type Root struct {
	URI  string `json:"uri"` // file://
	Name string `json:"name,omitempty"`
	Meta Meta   `json:"_meta,omitempty"`
}

// ListRootsResult is the client's answer to roots/list.
type ListRootsResult struct {
	Roots []Root `json:"roots"`
}

// A ClientResult is the answer of a client to a request of the server, as the middlewares for
// requests of the server see it.
type ClientResult struct {
	// Value is the result as the client has sent it, which is untrusted.
	Value jsontext.Value
	ResultMeta
}
