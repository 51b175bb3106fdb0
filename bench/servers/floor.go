package servers

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
)

// The floor is a server that decodes a message, executes it and encodes the answer with the
// standard library and nothing else: no checks, no limits, no cancellation, one message at a time
// on a pipe. It decodes a message in one pass, because it knows all members beforehand. A server
// that dispatches on the method first and decodes the rest later has a higher cost.
type floor struct {
	tools []floorTool
}

type floorTool struct {
	Name        string      `json:"name"`
	Description string      `json:"description"`
	InputSchema floorSchema `json:"inputSchema"`
}

type floorSchema struct {
	Type                 string                  `json:"type"`
	Description          string                  `json:"description,omitempty"`
	Items                *floorSchema            `json:"items,omitempty"`
	Properties           map[string]*floorSchema `json:"properties,omitempty"`
	Required             []string                `json:"required,omitempty"`
	AdditionalProperties *bool                   `json:"additionalProperties,omitempty"`
}

func newFloorServer(tools int) *floor {
	closed := false
	object := func(properties map[string]*floorSchema, required ...string) floorSchema {
		return floorSchema{Type: "object", Properties: properties, Required: required, AdditionalProperties: &closed}
	}
	f := &floor{tools: []floorTool{
		{Echo, echoDescription, object(map[string]*floorSchema{"text": {Type: "string"}}, "text")},
		{Steps, stepsDescription, object(nil)},
	}}
	schema := object(map[string]*floorSchema{
		"city":     {Type: "string", Description: "the city, in English"},
		"country":  {Type: "string", Description: "ISO 3166-1, two letters"},
		"days":     {Type: "integer", Description: "how many days ahead"},
		"metric":   {Type: "boolean", Description: "degrees Celsius"},
		"hours":    {Type: "array", Description: "the hours of interest", Items: &floorSchema{Type: "string"}},
		"altitude": {Type: "number", Description: "metres above the sea"},
	}, "city", "days")
	for _, name := range fillers(tools) {
		f.tools = append(f.tools, floorTool{name, fillerDescription, schema})
	}
	return f
}

type floorRequest struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method"`
	Params  floorParams     `json:"params"`
}

type floorMeta struct {
	ProtocolVersion    string          `json:"io.modelcontextprotocol/protocolVersion"`
	ClientInfo         floorInfo       `json:"io.modelcontextprotocol/clientInfo"`
	ClientCapabilities struct{}        `json:"io.modelcontextprotocol/clientCapabilities"`
	ProgressToken      json.RawMessage `json:"progressToken"`
}

type floorInfo struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

type floorParams struct {
	Meta      floorMeta `json:"_meta"`
	Name      string    `json:"name"`
	Arguments text      `json:"arguments"` // of the only tool that has arguments
}

type floorAnswer struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  any             `json:"result"`
}

type floorNote struct {
	JSONRPC string        `json:"jsonrpc"`
	Method  string        `json:"method"`
	Params  floorProgress `json:"params"`
}

type floorProgress struct {
	ProgressToken json.RawMessage `json:"progressToken"`
	Progress      float64         `json:"progress"`
	Total         float64         `json:"total"`
}

// floorEra has the members of modern results.
type floorEra struct {
	ResultType string           `json:"resultType,omitempty"`
	Meta       *floorResultMeta `json:"_meta,omitempty"`
}

type floorResultMeta struct {
	ServerInfo floorInfo `json:"io.modelcontextprotocol/serverInfo"`
}

type floorCallResult struct {
	floorEra
	Content []floorContent `json:"content"`
}

type floorContent struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type floorListResult struct {
	floorEra
	Tools []floorTool `json:"tools"`
}

var floorServerInfo = floorInfo{"bench", "1"}

func eraOf(meta *floorMeta) (e floorEra) {
	if meta.ProtocolVersion != "" {
		e = floorEra{"complete", &floorResultMeta{floorServerInfo}}
	}
	return e
}

// handle returns the answer to one message, nil for a notification. note sends a notification.
func (f *floor) handle(req *floorRequest, note func(any) error) (any, error) {
	params := &req.Params
	answer := func(result any) (any, error) { return &floorAnswer{"2.0", req.ID, result}, nil }
	said := func(s string) (any, error) {
		return answer(&floorCallResult{eraOf(&params.Meta), []floorContent{{"text", s}}})
	}
	switch {
	case req.ID == nil:
		return nil, nil
	case req.Method == "initialize":
		return answer(map[string]any{
			"protocolVersion": "2025-11-25", "serverInfo": floorServerInfo, "capabilities": map[string]any{"tools": map[string]any{}},
		})
	case req.Method == "tools/list":
		return answer(&floorListResult{eraOf(&params.Meta), f.tools})
	case req.Method == "tools/call" && params.Name == Echo:
		return said(params.Arguments.Text)
	case req.Method == "tools/call" && params.Name == Steps:
		for i := range StepCount {
			progress := floorProgress{params.Meta.ProgressToken, float64(i + 1), StepCount}
			if err := note(&floorNote{"2.0", "notifications/progress", progress}); err != nil {
				return nil, err
			}
		}
		return said("done")
	}
	return nil, fmt.Errorf("the floor does not know %s %s", req.Method, params.Name)
}

func newFloor(tools int) (Server, error) {
	f := newFloorServer(tools)
	return Server{
		Modern: f, Legacy: f,
		Stdio:  func(context.Context) error { return f.serve(os.Stdin, os.Stdout) },
		Memory: func() (Ask, error) { return overPipe(func(c net.Conn) { _ = f.serve(c, c) }), nil },
	}, nil
}

func (f *floor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var req floorRequest
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	streaming := false
	answer, err := f.handle(&req, func(n any) error {
		if !streaming {
			streaming = true
			w.Header().Set("Content-Type", "text/event-stream")
		}
		return floorEvent(w, n)
	})
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
	case answer == nil:
		w.WriteHeader(http.StatusAccepted)
	case streaming:
		_ = floorEvent(w, answer) // an error means that the client is gone
	default:
		w.Header().Set("Content-Type", "application/json")
		if req.Method == "initialize" {
			w.Header().Set("Mcp-Session-Id", "floor")
		}
		_ = json.NewEncoder(w).Encode(answer)
	}
}

func floorEvent(w http.ResponseWriter, message any) error {
	data, err := json.Marshal(message)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(w, "event: message\ndata: %s\n\n", data); err != nil {
		return err
	}
	return http.NewResponseController(w).Flush()
}

// serve answers one line after the other.
func (f *floor) serve(r io.Reader, w io.Writer) error {
	in := bufio.NewScanner(r)
	in.Buffer(make([]byte, 64<<10), 4<<20)
	out := json.NewEncoder(w)
	for in.Scan() {
		var req floorRequest
		if err := json.Unmarshal(in.Bytes(), &req); err != nil {
			return err
		}
		answer, err := f.handle(&req, out.Encode)
		if err != nil {
			return err
		}
		if answer != nil {
			if err := out.Encode(answer); err != nil {
				return err
			}
		}
	}
	return in.Err()
}
