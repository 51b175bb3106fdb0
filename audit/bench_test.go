package audit

import (
	"context"
	"testing"
	"time"

	"github.com/vitrine-mcp/vitrine/auth"
)

// The cost of a record for the call: with the digest of its arguments, and without what the writer
// does at the same time, which BenchmarkLine shows.
func BenchmarkAdd(b *testing.B) {
	discard := &memory{instead: func(_ context.Context, entries []Entry) (int, error) { return len(entries), nil }}
	l, err := New(Config{Sinks: []Sink{discard}, Key: testKey})
	if err != nil {
		b.Fatal(err)
	}
	r := called("echo")
	r.Principal = &auth.Principal{Issuer: "https://login.example.com", Subject: "ann"}
	arguments := []byte(`{"text":"hello","times":3}`)
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		r.Arguments = arguments
		l.Add(r)
		if n%1000 == 999 { // as many as come in a moment; then the writer has time
			b.StopTimer()
			for l.Stats()[0].Waiting > 0 {
				time.Sleep(time.Millisecond)
			}
			b.StartTimer()
		}
	}
	if err := l.Close(context.Background()); err != nil {
		b.Fatal(err)
	}
}

// The cost of a line with its place in the chain.
func BenchmarkLine(b *testing.B) {
	r := called("echo")
	r.Principal = &auth.Principal{Issuer: "https://login.example.com", Subject: "ann", Tenant: "acme", Client: "cli"}
	r.Address, r.Transport, r.RequestID, r.TraceID = "192.0.2.1:4711", "http", "7", "0af7651916cd43dd8448eb211c80319c"
	r.ClientName, r.ClientVersion, r.Duration, r.digested = "inspector", "1.2", time.Millisecond, true
	c := newChain(testKey)
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		dst = c.end(r.append(dst[:0]), 0)
	}
	b.SetBytes(int64(len(dst)))
}
