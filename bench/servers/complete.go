package servers

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// A complete server keeps what Vitrine promises for the requests that the benchmarks make. Beside the promises of a
// promising one it checks what the specification and the schemas of the tools demand, keeps the sessions of the
// legacy era, and gives each caller a share of the slots. It is written by hand, for the tools that it has, and as cheap as
// that can be without parsers of its own. It has no other methods, takes no notifications/cancelled, and says in plain text
// what is wrong.
type complete struct {
	*promising
	tools    map[string]completeTool
	list     jsontext.Value // of the tools
	longest  int64          // message, in bytes
	sessions keptSessions

	mu      sync.Mutex     // guards callers
	callers map[string]int // calls whose handlers run, by address
}

// A completeTool decodes and checks its arguments, and returns the result of the call without what
// belongs to the era.
type completeTool func(ctx context.Context, arguments jsontext.Value) (completeCallResult, error)

type completeRequest struct {
	JSONRPC string         `json:"jsonrpc"`
	ID      jsontext.Value `json:"id"`
	Method  string         `json:"method"`
	Params  completeParams `json:"params"`
}

type completeParams struct {
	Meta      completeMeta   `json:"_meta"`
	Name      string         `json:"name"`
	Arguments jsontext.Value `json:"arguments"`
	Version   string         `json:"protocolVersion"` // of initialize
}

type completeMeta struct {
	ProtocolVersion    string     `json:"io.modelcontextprotocol/protocolVersion"`
	ClientInfo         *floorInfo `json:"io.modelcontextprotocol/clientInfo"`
	ClientCapabilities *struct{}  `json:"io.modelcontextprotocol/clientCapabilities"`
}

type completeCallResult struct {
	floorEra
	Content           []floorContent `json:"content"`
	StructuredContent jsontext.Value `json:"structuredContent,omitempty"`
}

type completeListResult struct {
	floorEra
	Tools jsontext.Value `json:"tools"`
}

type completeAnswer struct {
	JSONRPC string         `json:"jsonrpc"`
	ID      jsontext.Value `json:"id"`
	Result  any            `json:"result"`
}

// A completeReply is what a handler gives to its exchange.
type completeReply struct {
	counts *series // never nil, unless there was an error
	opened string  // the id of the session that was opened, if one was
}

const (
	// callersShare is how many of the slots one caller may have.
	callersShare = 500
	// completeLongest is the length of the longest message by default, in bytes.
	completeLongest = 4 << 20

	completeModern = "2026-07-28"
	completeLegacy = "2025-11-25"
)

var (
	errNoSession = errors.New("there is no such session")
	errNoMethod  = errors.New("there is no such method or tool")
	errShare     = errors.New("too many calls of one caller")
	errMissing   = errors.New("an argument is missing")
)

func newComplete(tools map[string]completeTool, list any) (*complete, error) {
	encoded, err := json.Marshal(list)
	names := make([]string, 0, len(tools))
	for name := range tools {
		names = append(names, name)
	}
	return &complete{
		promising: &promising{level: counted, slots: make(chan struct{}, 1000), live: map[uint64]*liveCall{}, series: newSeries(names...)},
		tools:     tools, list: encoded, longest: completeLongest, callers: map[string]int{},
	}, err
}

func newCompleteEcho(tools int) (Server, error) { return completeEcho(tools, completeLongest) }

// completeEcho makes a complete server with the tool [Echo], whose messages may have a length of longest bytes.
func completeEcho(tools int, longest int64) (Server, error) {
	type echoed struct {
		Text *string `json:"text"`
	}
	c, err := newComplete(map[string]completeTool{Echo: func(_ context.Context, arguments jsontext.Value) (completeCallResult, error) {
		in, err := checkedInput(arguments, func(in *echoed) bool { return in.Text != nil })
		if err != nil {
			return completeCallResult{}, err
		}
		return completeCallResult{Content: []floorContent{{"text", *in.Text}}}, nil
	}}, newFloorServer(tools).tools)
	c.longest = longest
	return Server{Modern: c, Legacy: c}, err
}

// checkedInput decodes the arguments of a tool. It is an error if one is unknown or there twice, or if whole, which looks
// for what is missing or null, returns false.
func checkedInput[In any](arguments jsontext.Value, whole func(*In) bool) (*In, error) {
	in := new(In)
	if err := json.Unmarshal(arguments, in, json.RejectUnknownMembers(true)); err != nil {
		return nil, err
	}
	if !whole(in) {
		return nil, errMissing
	}
	return in, nil
}

func (c *complete) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := c.checkHeaders(r); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	id := r.Header.Get("Mcp-Session-Id")
	if id != "" && !c.sessions.use(id) {
		http.Error(w, errNoSession.Error(), http.StatusNotFound)
		return
	}
	if r.Method == http.MethodDelete {
		c.sessions.end(id)
		c.bare(w, http.StatusNoContent, c.series["DELETE"])
		return
	}
	var reply completeReply
	frame, err := c.serve(w, r, func(ctx context.Context, body []byte) (frame []byte, err error) {
		frame, reply, err = c.answer(ctx, body, r, id)
		return frame, err
	})
	switch {
	case errors.Is(err, errShare):
		http.Error(w, err.Error(), http.StatusTooManyRequests)
	case errors.Is(err, errNoSession), errors.Is(err, errNoMethod):
		http.Error(w, err.Error(), http.StatusNotFound)
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
	case frame == nil:
		c.bare(w, http.StatusAccepted, reply.counts)
	default:
		if reply.opened != "" {
			w.Header().Set("Mcp-Session-Id", reply.opened)
		}
		c.write(w, frame, reply.counts)
	}
}

// bare writes an answer without a body, and counts it if it was not lost.
func (c *complete) bare(w http.ResponseWriter, status int, counts *series) {
	rc := http.NewResponseController(w)
	_ = rc.SetWriteDeadline(time.Now().Add(promiseTime)) // an error means that the server has no deadlines
	w.WriteHeader(status)
	if rc.Flush() == nil {
		counts.ended.Inc()
	}
	_ = rc.SetWriteDeadline(time.Time{})
}

// checkHeaders checks what HTTP, the transport and the protection against DNS rebinding demand.
func (c *complete) checkHeaders(r *http.Request) error {
	host, _, err := net.SplitHostPort(r.Host)
	switch {
	case r.Method != http.MethodPost && (r.Method != http.MethodDelete || r.Header.Get("Mcp-Session-Id") == ""):
		return errors.New("only POST, and DELETE of a session, are served")
	case err != nil || host != "127.0.0.1" && host != "localhost":
		return errors.New("another host is meant")
	case r.Header.Get("Origin") != "":
		return errors.New("web pages are not served")
	}
	switch r.Header.Get("Mcp-Protocol-Version") {
	case completeModern, completeLegacy, "2025-06-18", "2025-03-26", "":
	default:
		return errors.New("the version of the protocol is unknown")
	}
	if r.Method == http.MethodDelete {
		return nil
	}
	accept := r.Header.Get("Accept")
	switch {
	case !isJSON(r.Header.Get("Content-Type")):
		return errors.New("the content is not JSON")
	case !strings.Contains(accept, "application/json"):
		return errors.New("the client does not accept JSON")
	case r.ContentLength < 0 || r.ContentLength > c.longest:
		return fmt.Errorf("the length is unknown, or above %d bytes", c.longest)
	}
	return nil
}

func isJSON(contentType string) bool {
	if contentType == "application/json" {
		return true
	}
	kind, _, err := mime.ParseMediaType(contentType)
	return err == nil && kind == "application/json"
}

// take reserves a place of the caller's share.
func (c *complete) take(caller string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.callers[caller] == callersShare {
		return false
	}
	c.callers[caller]++
	return true
}

func (c *complete) give(caller string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.callers[caller]--; c.callers[caller] == 0 {
		delete(c.callers, caller)
	}
}

// answer checks a message, executes it and encodes the answer, which is nil for a notification. session is what the
// client has sent.
func (c *complete) answer(ctx context.Context, body []byte, r *http.Request, session string) (frame []byte, reply completeReply, err error) {
	caller, _, _ := net.SplitHostPort(r.RemoteAddr) // net/http has set it
	if !c.take(caller) {
		return nil, reply, errShare
	}
	defer c.give(caller)
	var req completeRequest
	if err := json.Unmarshal(body, &req); err != nil { // also for names that are there twice, and what is not UTF-8
		return nil, reply, err
	}
	params := &req.Params
	if err := checkRequest(&req, r, session); err != nil {
		return nil, reply, err
	}
	name, tool := req.Method, completeTool(nil)
	if req.Method == "tools/call" {
		if name, tool = params.Name, c.tools[params.Name]; tool == nil {
			return nil, reply, fmt.Errorf("%w: %s", errNoMethod, name)
		}
	} else if !slices.Contains(completeMethods, req.Method) {
		return nil, reply, fmt.Errorf("%w: %s", errNoMethod, req.Method)
	}
	reply.counts = c.series[name]
	leave, err := c.enter(ctx, reply.counts, req.Method, params.Name, len(body), r)
	if err != nil {
		return nil, reply, err
	}
	defer leave()
	era := eraOf(&floorMeta{ProtocolVersion: params.Meta.ProtocolVersion})
	var result any
	switch req.Method {
	case "notifications/initialized":
		return nil, reply, nil
	case "initialize":
		reply.opened = c.sessions.open()
		result = map[string]any{
			"protocolVersion": agreedVersion(params.Version), "serverInfo": floorServerInfo, "capabilities": map[string]any{"tools": map[string]any{}},
		}
	case "tools/list":
		result = &completeListResult{era, c.list}
	default:
		called, err := tool(ctx, params.Arguments)
		if err != nil {
			return nil, reply, err
		}
		called.floorEra = era
		result = &called
	}
	frame, err = json.Marshal(&completeAnswer{"2.0", req.ID, result})
	return frame, reply, err
}

// completeMethods are those beside tools/call.
var completeMethods = []string{"tools/list", "initialize", "notifications/initialized"}

// agreedVersion returns the version of a session whose client wants another one, perhaps.
func agreedVersion(wanted string) string {
	switch wanted {
	case "2025-06-18", "2025-03-26":
		return wanted
	}
	return completeLegacy
}

// checkRequest checks the envelope, what the modern era demands, and that legacy requests have a session.
func checkRequest(req *completeRequest, r *http.Request, session string) error {
	notification := req.ID == nil
	switch {
	case req.JSONRPC != "2.0":
		return errors.New("this is not JSON-RPC 2.0")
	case !notification && req.ID.Kind() != '"' && req.ID.Kind() != '0':
		return errors.New("the id is neither a string nor a number")
	case notification != strings.HasPrefix(req.Method, "notifications/"):
		return errors.New("only notifications have no id")
	}
	meta, said := &req.Params.Meta, r.Header.Get("Mcp-Protocol-Version")
	if meta.ProtocolVersion == "" {
		switch {
		case said == completeModern:
			return errors.New("the message does not say its version")
		case session == "" && req.Method != "initialize":
			return errNoSession
		}
		return nil
	}
	switch {
	case meta.ProtocolVersion != completeModern || said != completeModern:
		return errors.New("header and message must name the same version")
	case req.Method != r.Header.Get("Mcp-Method"):
		return errors.New("header and message name other methods")
	case req.Params.Name != r.Header.Get("Mcp-Name"):
		return errors.New("header and message name other tools")
	case meta.ClientInfo == nil:
		return errors.New("the client does not describe itself")
	case meta.ClientCapabilities == nil:
		return errors.New("the client does not say its capabilities")
	}
	return nil
}
