package framed_test

import (
	"bufio"
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/framed"
	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/transport"
)

// On a byte stream a batch is one line, and so is the array of its answers.
func TestBatchIsOneLine(t *testing.T) {
	const object = "a message must be an object"
	hello := legacy(0, "initialize", "") + "\n"
	for _, tt := range []struct {
		name, in string
		version  mcp.Version
		want     []string // each line, or a part of it
	}{
		{"one", hello + batch(call(1, "echo")), mcp.Version20250326, []string{batch(answer(1, "echo"))}},
		{"nothing to answer", hello + batch(nothing, response) + "\n" + call(1, "echo"), mcp.Version20250326, []string{answer(1, "echo")}},
		{"malformed members", hello + batch(`1`, `"x"`), mcp.Version20250326,
			[]string{batch(nullFailure(-32600, object), nullFailure(-32600, object))}},
		{"empty", hello + "[]\n" + call(1, "echo"), mcp.Version20250326,
			[]string{nullFailure(-32600, "a batch must not be empty"), answer(1, "echo")}},
		{"too many", hello + batch(nothing, nothing, nothing, nothing) + "\n", mcp.Version20250326,
			[]string{`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"a batch must not have more than 3 messages","data":{"limit":"max_batch"}}}`}},
		{"broken", hello + "[1,\n" + call(1, "echo"), mcp.Version20250326, []string{"-32700", answer(1, "echo")}},
		{"cut off", hello + "[1,", mcp.Version20250326, nil},
		{"before initialize", batch(call(1, "echo")) + "\n" + hello, mcp.Version20250326, []string{failure("", -32600, notAnArray)}},
		{"another revision", hello + batch(call(1, "echo")) + "\n", mcp.Version20250618, []string{nullFailure(-32600, notAnArray)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t, limits.Limits{MaxBatch: 3})
				f.AgreeOn(tt.version)
				p, err := serve(f, tt.in)
				require.NoError(t, err)
				var got []string
				for _, line := range p.lines() {
					if line != answer(0, "welcome") {
						got = append(got, line)
					}
				}
				require.Len(t, got, len(tt.want), "%q", got)
				for i, want := range tt.want {
					require.Contains(t, got[i], want)
				}
				f.Conserved()
			})
		})
	}
}

// The answers of a batch are sent together. Other messages do not wait for them.
func TestAnswersOfABatchAreSentTogether(t *testing.T) {
	f := newFake(t, limits.Limits{})
	f.AgreeOn(mcp.Version20250326)
	server, client := transport.Memory()
	served := make(chan error, 1)
	go func() { served <- framed.Serve(context.Background(), f.Core, transport.Lines(server)) }()
	in := bufio.NewReader(client)
	say := func(line string) {
		_, err := io.WriteString(client, line+"\n")
		require.NoError(t, err)
	}
	hear := func() string {
		line, err := in.ReadString('\n')
		require.NoError(t, err)
		return strings.TrimSuffix(line, "\n")
	}
	say(legacy(0, "initialize", ""))
	require.Equal(t, answer(0, "welcome"), hear())
	say(batch(call(1, "wait"), call(2, "progress:x"), call(3, "echo")))
	require.Equal(t, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"n":0}}`, hear())
	say(call(4, "echo"))
	require.Equal(t, answer(4, "echo"), hear(), "another request's answer does not wait")
	f.Release <- struct{}{}
	line := hear()
	for _, want := range []string{answer(1, "wait"), answer(2, "progress:x"), answer(3, "echo")} {
		require.Contains(t, line, want)
	}
	require.Equal(t, byte('['), line[0])
	require.NoError(t, client.Close())
	require.NoError(t, <-served)
	f.Conserved()
}
