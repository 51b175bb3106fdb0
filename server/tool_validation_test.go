package server_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/server"
)

// slowPattern needs a thousand steps for each byte of a text.
const slowPattern = `{"type":"object","properties":{"value":{"type":"string","pattern":"^(a?){400}b"}}}`

type patternInput struct {
	Value string `json:"value,omitempty"`
}

func TestCostlyArgumentsNameTheLimit(t *testing.T) {
	srv := newServer(t)
	handler := func(context.Context, *server.Call, patternInput) (string, error) { return "handled", nil }
	server.AddTool(srv, server.Tool{Name: "slow", InputSchema: jsontext.Value(slowPattern)}, handler)
	server.AddTool(srv, server.Tool{Name: "patient", InputSchema: jsontext.Value(slowPattern), ValidationSteps: 10 << 20}, handler)
	arguments := `{"value":"` + strings.Repeat("a", 1000) + `b"}`
	p := dial(t, srv)
	answer := p.ask(modern(1, "tools/call", call("slow", arguments)))
	require.Contains(t, answer, `"code":-32602`)
	require.Contains(t, answer, `"limit":"max_validation_steps"`)
	require.NotContains(t, p.ask(modern(2, "tools/call", call("patient", arguments))), "max_validation_steps")
	require.Contains(t, p.ask(modern(3, "tools/call", call("slow", `{"value":"aab"}`))), "handled")
}

func TestRegistrationWarnsOfCostlySchemas(t *testing.T) {
	var log bytes.Buffer
	srv := newServer(t, server.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	handler := func(context.Context, *server.Call, patternInput) (string, error) { return "", nil }
	server.AddTool(srv, server.Tool{Name: "patient", InputSchema: jsontext.Value(slowPattern), ValidationSteps: 10 << 20}, handler)
	require.NotContains(t, log.String(), "schema.costly")
	server.AddTool(srv, server.Tool{Name: "slow", InputSchema: jsontext.Value(slowPattern)}, handler)
	require.Contains(t, log.String(), "msg=schema.costly tool=slow schema=input")
	require.ErrorContains(t, server.TryAddTool(srv, server.Tool{Name: "x", ValidationSteps: -1}, handler), "negative")
}
