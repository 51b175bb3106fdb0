package servers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"mime"
	"net"
	"net/http"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// A complete server keeps all promises of Vitrine for a request. Beside those of the promising one
// it checks what the specification and the schemas of the tools demand, keeps the sessions of the
// legacy era, and gives each caller a share of the slots. It is written by hand, for the tools that
// it has, and every check is the cheapest that the libraries offer.
type complete struct {
	*promising
	tools    map[string]completeTool
	list     jsontext.Value // of the tools
	sessions keptSessions

	mu      sync.Mutex     // guards callers
	callers map[string]int // calls in flight, by address
}

// A completeTool decodes and checks its arguments, and returns the result of the call without what
// belongs to the era.
type completeTool func(ctx context.Context, arguments jsontext.Value) (completeCallResult, error)

type completeRequest struct {
	JSONRPC string         `json:"jsonrpc"`
	ID      jsontext.Value `json:"id"`
	Method  string         `json:"method"`
	Params  jsontext.Value `json:"params"`
}

type completeParams struct {
	Meta      completeMeta   `json:"_meta"`
	Name      string         `json:"name"`
	Arguments jsontext.Value `json:"arguments"`
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

// callersShare is how many of the slots one caller may have.
const callersShare = 500

var (
	errNoSession = errors.New("there is no such session")
	errNoMethod  = errors.New("there is no such method")
)

func newComplete(tools map[string]completeTool, list any) (*complete, error) {
	encoded, err := json.Marshal(list)
	names := make([]string, 0, len(tools))
	for name := range tools {
		names = append(names, name)
	}
	return &complete{
		promising: &promising{level: counted, slots: make(chan struct{}, 1000), live: map[uint64]*liveCall{}, series: newSeries(names...)},
		tools:     tools, list: encoded, callers: map[string]int{},
	}, err
}

func newCompleteEcho(tools int) (Server, error) {
	c, err := newComplete(map[string]completeTool{Echo: func(_ context.Context, arguments jsontext.Value) (completeCallResult, error) {
		in, err := checkedInput[text](arguments, "text")
		return completeCallResult{Content: []floorContent{{"text", in.Text}}}, err
	}}, newFloorServer(tools).tools)
	return Server{Modern: c, Legacy: c}, err
}

func (c *complete) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get("Mcp-Session-Id")
	if id != "" && !c.sessions.use(id) {
		http.Error(w, errNoSession.Error(), http.StatusNotFound)
		return
	}
	if r.Method == http.MethodDelete {
		c.sessions.end(id)
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if err := checkHeaders(r); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	caller, _, _ := net.SplitHostPort(r.RemoteAddr) // net/http has set it
	if !c.take(caller) {
		http.Error(w, "too many calls of one caller", http.StatusTooManyRequests)
		return
	}
	defer c.give(caller)
	var counts *series
	opened := ""
	frame, err := c.serve(w, r, func(ctx context.Context, body []byte) (frame []byte, err error) {
		frame, counts, opened, err = c.answer(ctx, body, r, id)
		return frame, err
	})
	switch {
	case errors.Is(err, errNoSession), errors.Is(err, errNoMethod):
		http.Error(w, err.Error(), http.StatusNotFound)
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
	case frame == nil:
		w.WriteHeader(http.StatusAccepted)
	default:
		if opened != "" {
			w.Header().Set("Mcp-Session-Id", opened)
		}
		c.write(w, frame, counts)
	}
}

// checkHeaders checks what HTTP, the transport and the protection against DNS rebinding demand.
func checkHeaders(r *http.Request) error {
	accept := r.Header.Get("Accept")
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	host, _, err2 := net.SplitHostPort(r.Host)
	switch {
	case r.Method != http.MethodPost:
		return errors.New("only POST and DELETE are served")
	case err != nil || kind != "application/json":
		return errors.New("the content is not JSON")
	case !strings.Contains(accept, "application/json") || !strings.Contains(accept, "text/event-stream"):
		return errors.New("the client must accept JSON and event streams")
	case err2 != nil || host != "127.0.0.1" && host != "localhost":
		return errors.New("another host is meant")
	case r.Header.Get("Origin") != "":
		return errors.New("no pages are served")
	case r.ContentLength < 0 || r.ContentLength > 4<<20:
		return errors.New("the length is unknown, or above 4 MiB")
	}
	switch r.Header.Get("Mcp-Protocol-Version") {
	case "2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "":
		return nil
	}
	return errors.New("the version of the protocol is unknown")
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

// answer checks a message, executes it and encodes the answer, which is nil for a notification.
// session is what the client has sent, and opened the id of the session that the message has opened.
func (c *complete) answer(ctx context.Context, body []byte, r *http.Request, session string) (frame []byte, counts *series, opened string, err error) {
	var req completeRequest
	if err := json.Unmarshal(body, &req); err != nil { // also for names that are there twice, and what is not UTF-8
		return nil, nil, "", err
	}
	var params completeParams
	if req.Params != nil {
		if err := json.Unmarshal(req.Params, &params); err != nil {
			return nil, nil, "", err
		}
	}
	if err := checkRequest(&req, &params, r, session); err != nil {
		return nil, nil, "", err
	}
	name := req.Method
	if name == "tools/call" {
		name = params.Name
	}
	if counts = c.series[name]; counts == nil {
		return nil, nil, "", fmt.Errorf("%w: %s", errNoMethod, name)
	}
	defer c.enter(counts, req.Method, params.Name, len(body), r)()
	era := eraOf(&floorMeta{ProtocolVersion: params.Meta.ProtocolVersion})
	var result any
	switch req.Method {
	case "notifications/initialized":
		return nil, counts, "", nil
	case "initialize":
		opened = c.sessions.open()
		result = map[string]any{
			"protocolVersion": "2025-11-25", "serverInfo": floorServerInfo, "capabilities": map[string]any{"tools": map[string]any{}},
		}
	case "tools/list":
		result = &completeListResult{era, c.list}
	default:
		called, err := c.tools[params.Name](ctx, params.Arguments)
		if err != nil {
			return nil, nil, "", err
		}
		called.floorEra = era
		result = &called
	}
	frame, err = json.Marshal(&completeAnswer{"2.0", req.ID, result})
	return frame, counts, opened, err
}

type completeAnswer struct {
	JSONRPC string         `json:"jsonrpc"`
	ID      jsontext.Value `json:"id"`
	Result  any            `json:"result"`
}

// checkRequest checks the envelope, what the modern era demands, and that legacy requests have a session.
func checkRequest(req *completeRequest, params *completeParams, r *http.Request, session string) error {
	notification := req.ID == nil
	switch {
	case req.JSONRPC != "2.0":
		return errors.New("this is not JSON-RPC 2.0")
	case !notification && req.ID.Kind() != '"' && req.ID.Kind() != '0':
		return errors.New("the id is neither a string nor a number")
	case notification != strings.HasPrefix(req.Method, "notifications/"):
		return errors.New("only notifications have no id")
	}
	meta := &params.Meta
	if meta.ProtocolVersion == "" {
		if session == "" && req.Method != "initialize" {
			return errNoSession
		}
		return nil
	}
	switch {
	case meta.ProtocolVersion != r.Header.Get("Mcp-Protocol-Version"):
		return errors.New("header and message name other versions of the protocol")
	case req.Method != r.Header.Get("Mcp-Method"):
		return errors.New("header and message name other methods")
	case params.Name != r.Header.Get("Mcp-Name"):
		return errors.New("header and message name other tools")
	case meta.ClientInfo == nil || meta.ClientCapabilities == nil:
		return errors.New("the client does not describe itself")
	}
	return nil
}

// checkedInput decodes the arguments of a tool. It is an error if one is unknown, is there twice, or is required
// and missing.
func checkedInput[In any](arguments jsontext.Value, required ...string) (in In, err error) {
	if err := json.Unmarshal(arguments, &in, json.RejectUnknownMembers(true)); err != nil {
		return in, err
	}
	d := jsontext.NewDecoder(bytes.NewBuffer(arguments)) // reads them where they are
	_, err = d.ReadToken()                               // the object has been decoded: there is no error until its end
	missing := len(required)
	for err == nil && d.PeekKind() != '}' {
		var name jsontext.Token
		if name, err = d.ReadToken(); err != nil {
			break
		}
		for _, r := range required {
			if name.String() == r {
				missing--
			}
		}
		err = d.SkipValue()
	}
	if err == nil && missing > 0 {
		err = fmt.Errorf("of the arguments %v, %d are missing", required, missing)
	}
	return in, err
}
