//go:build !race

package audit

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
)

// A record costs its call no allocation: not for the digest of the arguments, and not for what is kept of a principal.
func TestAddAllocations(t *testing.T) {
	gate := make(chan struct{})
	sink := &memory{instead: func(_ context.Context, entries []Entry) (int, error) {
		<-gate
		return len(entries), nil
	}}
	l := newLog(t, Config{Sinks: []Sink{sink}, Key: testKey})
	r := called("echo")
	r.Principal = &auth.Principal{
		Issuer: "https://login.example.com", Subject: "ann", Actors: []string{"proxy", "agent"}, Scopes: []string{"files:read"},
		Claims: map[string]any{"groups": []string{"staff"}},
	}
	r.Arguments = []byte(`{"text":"hello","times":3}`)
	allocations := testing.AllocsPerRun(1000, func() { l.Add(r) }) // the queue grows now and then, which is less than 1
	require.Zero(t, allocations)
	close(gate)
	require.NoError(t, l.Close(t.Context()))
}
