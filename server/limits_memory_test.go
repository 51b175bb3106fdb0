package server_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// Limits that are set after the server was made hold for validation, too.
func TestLimitsOfValidationCanBeSetLater(t *testing.T) {
	srv := newServer(t)
	server.AddTool(srv, server.Tool{Name: "words", InputSchema: []byte(`{"type":"object","properties":{"words":{"type":"array","items":{"type":"string"}}}}`)},
		func(context.Context, *server.Call, struct {
			Words []string `json:"words"`
		}) (string, error) {
			return "ok", nil
		})
	require.NoError(t, srv.SetLimits(server.Limits{MaxValidationSteps: 100}))
	p := dial(t, srv)
	arguments := `{"words":[` + strings.TrimSuffix(strings.Repeat(`"x",`, 1000), ",") + `]}`
	require.Contains(t, p.ask(modern(1, "tools/call", call("words", arguments))), `"limit":"max_validation_steps"`)
}

// A slowValue is decoded when its channel is closed.
type slowValue struct{}

var slowDecoding chan struct{}

func (*slowValue) UnmarshalJSON([]byte) error {
	<-slowDecoding
	return nil
}

// Large values that are validated at once share max_validation_bytes. Small ones do not wait.
func TestLargeValuesWaitForEachOther(t *testing.T) {
	slowDecoding = make(chan struct{})
	tel, err := telemetry.New()
	require.NoError(t, err)
	srv := newServer(t, server.WithLimits(server.Limits{MaxValidationBytes: 100_000}), server.WithTelemetry(tel))
	server.AddTool(srv, server.Tool{Name: "slow", InputSchema: []byte(`{"type":"object","properties":{"value":{}}}`)},
		func(context.Context, *server.Call, struct {
			Value slowValue `json:"value"`
		}) (string, error) {
			return "ok", nil
		})
	server.AddTool(srv, server.Tool{Name: "hi"}, text("hello"))
	p := dial(t, srv)
	large := `{"value":"` + strings.Repeat("x", 90_000) + `"}`
	p.send(modern(1, "tools/call", call("slow", large)), modern(2, "tools/call", call("slow", large)))
	reached := func() uint64 { return srv.Core().Snapshot().Counters.LimitsReached["max_validation_bytes"] }
	require.Eventually(t, func() bool { return reached() == 1 }, 20*time.Second, time.Millisecond)
	require.Contains(t, p.ask(modern(3, "tools/call", call("hi", "{}"))), "hello")
	require.Contains(t, scrape(t, tel), fmt.Sprintf("vitrine_share_largest{limit=%q} %d", "max_validation_bytes", len(large)))
	close(slowDecoding)
	require.Contains(t, p.recv()+p.recv(), `"ok"`)
}
