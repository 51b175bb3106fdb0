package servers

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/vitrine-mcp/vitrine/server"
)

// Held is the name of the kind with net/http alone, whose memory is subtracted from the others.
const Held = "held"

// Hold is the name of the tool of the [Scaled] kinds that waits until it is cancelled.
const Hold = "hold"

// Listen is the method that opens a stream.
const Listen = "subscriptions/listen"

// Scaled returns the kinds for many clients at the same time. They also have the tool [Hold], have
// no limits below the scale, and serve only the HTTP endpoints.
func Scaled() []Kind {
	const vitrine = "github.com/vitrine-mcp/vitrine"
	return []Kind{
		{Name: Held, Title: "net/http", New: newHeld},
		{Name: "vitrine-scaled", Title: "Vitrine, traces unsampled", Module: vitrine, Env: unsampled, New: newVitrineScaled},
		{Name: "vitrine-scaled-default", Title: "Vitrine, default", Module: vitrine, New: newVitrineScaled},
	}
}

// Listing returns the kinds for lists of many tools, first the bare echo.
func Listing() []Kind { return named(Bare, "vitrine", Filtered) }

// Reading returns the kinds for long texts: first the bare echo, last Vitrine as package service runs it. The limits of the server
// by hand and of both Vitrines are above the texts.
func Reading() []Kind { return named(Bare, Floor, RoomyPromised, Roomy, RoomyService) }

// The names of servers whose limits let long texts pass.
const (
	RoomyPromised = "floor-complete-roomy" // by hand, with all promises of Vitrine
	Roomy         = "vitrine-roomy"
	RoomyService  = "vitrine-roomy-service" // run by package service
)

func scaleKinds() []Kind {
	const vitrine = "github.com/vitrine-mcp/vitrine"
	return append(append(Scaled(), replicaKinds()...),
		Kind{Name: Filtered, Title: "… and a policy that filters its lists", Module: vitrine, Env: unsampled, New: newFiltered},
		Kind{Name: RoomyPromised, Title: "by hand, with all promises", New: func(tools int) (Server, error) { return completeEcho(tools, room) }},
		Kind{Name: Roomy, Title: "Vitrine, traces unsampled", Module: vitrine, Env: unsampled, New: newRoomy},
		Kind{Name: RoomyService, Title: "Vitrine, default, run by package service", Module: vitrine, New: newRoomyService})
}

// room is the length of the longest message of the servers for long texts, in bytes.
const room = 64 << 20

func roomy() server.Option {
	return server.WithLimits(server.Limits{MaxFrameBytes: room, MaxQueuedBytes: room, MaxArgumentBytes: room, MaxValidationBytes: room})
}

func newRoomy(tools int) (Server, error) { return vitrine(tools, roomy()) }

func newRoomyService(tools int) (Server, error) { return newService(tools, roomy()) }

// A held keeps every exchange open: a stream, which it can notify of a change, or a call that
// only waits.
type held struct {
	waiting atomic.Int64
	mu      sync.Mutex
	changed chan struct{} // closed by the next change; mu guards it
}

func newHeld(int) (Server, error) {
	h := &held{changed: make(chan struct{})}
	return Server{Modern: h, Legacy: h, Change: h.change, Waiting: &h.waiting}, nil
}

func (h *held) change() {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.changed)
	h.changed = make(chan struct{})
}

func (h *held) next() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.changed
}

func (h *held) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // otherwise net/http would not notice a disconnect
	if r.Header.Get("Mcp-Method") != Listen {
		h.waiting.Add(1)
		defer h.waiting.Add(-1)
		<-r.Context().Done()
		return
	}
	changed := h.next()
	w.Header().Set("Content-Type", "text/event-stream")
	for event := "subscriptions/acknowledged"; ; event = "tools/list_changed" {
		fmt.Fprintf(w, "event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/%s\",\"params\":"+
			"{\"_meta\":{\"io.modelcontextprotocol/subscriptionId\":100000000}}}\n\n", event)
		if err := http.NewResponseController(w).Flush(); err != nil {
			return
		}
		select {
		case <-changed:
			changed = h.next()
		case <-r.Context().Done():
			return
		}
	}
}

func newVitrineScaled(tools int) (Server, error) {
	const plenty = 1 << 20
	srv, err := server.TryNew("bench", "1", server.WithLimits(server.Limits{MaxSessions: plenty, MaxSubscriptions: plenty, MaxInFlightTotal: plenty}))
	if err != nil {
		return Server{}, err
	}
	addTools(srv, tools)
	s, err := alone(srv)
	if err != nil {
		return Server{}, err
	}
	s.Waiting = new(atomic.Int64)
	server.AddTool(srv, server.Tool{Name: Hold}, func(ctx context.Context, _ *server.Call, _ none) (string, error) {
		s.Waiting.Add(1)
		defer s.Waiting.Add(-1)
		<-ctx.Done()
		return "", ctx.Err()
	})
	const extra = "extra"
	there := false
	s.Change = func() {
		if there = !there; there {
			server.AddTool(srv, server.Tool{Name: extra},
				func(context.Context, *server.Call, none) (string, error) { return "", nil })
		} else {
			srv.RemoveTools(extra)
		}
	}
	return s, nil
}
