package store_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/vitrine-mcp/vitrine/store"
)

// A recentEvents is an event store that keeps the latest events of each stream.
type recentEvents struct {
	perStream int

	mu      sync.Mutex // guards the rest
	streams map[string]map[string][]store.Event
}

func (r *recentEvents) Append(_ context.Context, session string, e store.Event) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.streams[session] == nil {
		r.streams[session] = map[string][]store.Event{}
	}
	kept := append(r.streams[session][e.Stream], e)
	r.streams[session][e.Stream] = kept[max(0, len(kept)-r.perStream):]
	return nil
}

func (r *recentEvents) After(_ context.Context, session, stream string, seq uint64) (events []store.Event, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.streams[session][stream] {
		if e.Seq > seq {
			events = append(events, e)
		}
	}
	return events, nil
}

func (r *recentEvents) Delete(_ context.Context, session string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.streams, session)
	return nil
}

// A server takes it with server.WithEventStore, and calls it as follows.
func ExampleEventStore() {
	var events store.EventStore = &recentEvents{perStream: 2, streams: map[string]map[string][]store.Event{}}
	ctx := context.Background()
	for seq := range uint64(3) {
		message := fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/message","params":{"data":%d}}`, seq+1)
		if err := events.Append(ctx, "session", store.Event{Stream: "1", Seq: seq + 1, Data: message}); err != nil {
			fmt.Println(err)
		}
	}
	missed, err := events.After(ctx, "session", "1", 1)
	for _, e := range missed {
		fmt.Println(e.Seq, string(e.Data))
	}
	fmt.Println(err, events.Delete(ctx, "session"))

	// Output:
	// 2 {"jsonrpc":"2.0","method":"notifications/message","params":{"data":2}}
	// 3 {"jsonrpc":"2.0","method":"notifications/message","params":{"data":3}}
	// <nil> <nil>
}
