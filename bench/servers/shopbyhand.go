package servers

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
)

// A shopByHand speaks just enough of the protocol for a legacy client. It keeps no sessions: the
// id of a session is a fixed text. It checks nothing, limits nothing and counts nothing.
type shopByHand struct {
	*shop
	tools json.RawMessage // the result of tools/list
}

type shopRequest struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method"`
	Params  struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"params"`
}

type shopCallResult struct {
	Content           []floorContent  `json:"content"`
	StructuredContent json.RawMessage `json:"structuredContent"`
}

// A shopTool is a tool as tools/list describes it.
type shopTool struct {
	Name         string       `json:"name"`
	Description  string       `json:"description"`
	InputSchema  *floorSchema `json:"inputSchema"`
	OutputSchema *floorSchema `json:"outputSchema"`
}

func shopTools() []shopTool {
	closed := false
	object := func(properties map[string]*floorSchema, required ...string) *floorSchema {
		return &floorSchema{Type: "object", Properties: properties, Required: required, AdditionalProperties: &closed}
	}
	list := func(items *floorSchema) *floorSchema { return &floorSchema{Type: "array", Items: items} }
	text, whole, number := &floorSchema{Type: "string"}, &floorSchema{Type: "integer"}, &floorSchema{Type: "number"}
	goods := object(map[string]*floorSchema{"id": whole, "name": text, "price": number, "rank": whole}, "id", "name", "price", "rank")
	items := list(object(map[string]*floorSchema{"product": whole, "quantity": whole}, "product", "quantity"))
	return []shopTool{
		{Search, searchDescription,
			object(map[string]*floorSchema{"category": text, "max_price": number, "limit": whole}, "category", "max_price", "limit"),
			object(map[string]*floorSchema{"category": text, "products": list(goods), "popular": list(whole)}, "category", "products", "popular")},
		{Cart, cartDescription,
			object(map[string]*floorSchema{"user": text}, "user"),
			object(map[string]*floorSchema{"user": text, "items": items, "first": goods, "history": list(text)}, "user", "items", "first", "history")},
		{Checkout, checkoutDescription,
			object(map[string]*floorSchema{"user": text, "items": items}, "user", "items"),
			object(map[string]*floorSchema{"user": text, "total": number, "orders": whole, "status": text}, "user", "total", "orders", "status")},
	}
}

func newShopByHand(int) (Server, error) {
	tools, err := json.Marshal(map[string][]shopTool{"tools": shopTools()})
	if err != nil {
		return Server{}, err
	}
	s := &shopByHand{newShop(), tools}
	return Server{Modern: s, Legacy: s, Close: s.close}, nil
}

func (s *shopByHand) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodDelete {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	var req shopRequest
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if req.ID == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	result, err := s.handle(r.Context(), &req)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if req.Method == "initialize" {
		w.Header().Set("Mcp-Session-Id", "by-hand")
	}
	_ = json.NewEncoder(w).Encode(&floorAnswer{"2.0", req.ID, result}) // an error means that the client is gone
}

func (s *shopByHand) handle(ctx context.Context, req *shopRequest) (any, error) {
	switch req.Method {
	case "initialize":
		return map[string]any{
			"protocolVersion": "2025-11-25", "serverInfo": floorServerInfo, "capabilities": map[string]any{"tools": map[string]any{}},
		}, nil
	case "tools/list":
		return s.tools, nil
	case "tools/call":
		switch req.Params.Name {
		case Search:
			return answerCall(ctx, req, s.search)
		case Cart:
			return answerCall(ctx, req, s.cart)
		case Checkout:
			return answerCall(ctx, req, s.checkout)
		}
	}
	return nil, fmt.Errorf("the shop does not know %s %s", req.Method, req.Params.Name)
}

// answerCall decodes the arguments of a call, and encodes its result.
func answerCall[In, Out any](ctx context.Context, req *shopRequest, do func(context.Context, In) (Out, error)) (any, error) {
	var in In
	if err := json.Unmarshal(req.Params.Arguments, &in); err != nil {
		return nil, err
	}
	out, err := do(ctx, in)
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(out)
	if err != nil {
		return nil, err
	}
	return &shopCallResult{[]floorContent{{"text", string(data)}}, data}, nil
}
