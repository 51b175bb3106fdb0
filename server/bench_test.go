package server_test

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/telemetry"
	"github.com/vitrine-mcp/vitrine/transport"
)

// BenchmarkRequests measures a request and its answer over a pipe in memory, without telemetry.
func BenchmarkRequests(b *testing.B) {
	srv := server.New("bench", "1", server.WithTelemetry(telemetry.Disabled()), server.WithLogger(slog.New(slog.DiscardHandler)))
	server.AddTool(srv, server.Tool{Name: "x"}, text("hello"))
	server.AddPrompt(srv, server.Prompt{Name: "x", Arguments: []server.PromptArgument{
		{Name: "a", Required: true, Complete: server.CompleteFrom("1", "2")}}}, say("hello"))
	for i := range 100 {
		server.AddStaticResource(srv, server.Resource{URI: fmt.Sprint("x:", i), Name: "n"}, "hello")
		server.AddResourceTemplate(srv, server.ResourceTemplate{URITemplate: fmt.Sprint("t", i, ":{id}"), Name: "n"}, echoVars)
	}
	serverEnd, clientEnd := transport.Memory()
	served := make(chan error, 1)
	go func() { served <- srv.ServePipe(context.Background(), serverEnd) }()
	defer func() {
		clientEnd.Close()
		<-served
	}()
	in := bufio.NewReaderSize(clientEnd, 1<<20)
	for _, bb := range []struct{ name, method, params string }{
		{"call", "tools/call", call("x", `{}`)},
		{"prompt", "prompts/get", prompt("x", `{"a":"b"}`)},
		{"read", "resources/read", uri("x:50")},
		{"template", "resources/read", uri("t50:1")},
		{"unknown", "resources/read", uri("u:1")},
		{"complete", "completion/complete", completion(promptRef("x"), argument("a", "1"))},
		{"list", "resources/list", ""},
	} {
		b.Run(bb.name, func(b *testing.B) {
			frame := []byte(modern(1, bb.method, bb.params) + "\n")
			b.ReportAllocs()
			for b.Loop() {
				_, err := clientEnd.Write(frame)
				require.NoError(b, err)
				_, err = in.ReadSlice('\n')
				require.NoError(b, err)
			}
		})
	}
}
