package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/server/servertest"
)

// allCapabilities is a client that can be asked everything.
func allCapabilities() mcp.ClientCapabilities {
	return mcp.ClientCapabilities{
		Roots:       &mcp.RootsCapability{},
		Sampling:    &mcp.SamplingCapability{Context: &struct{}{}, Tools: &struct{}{}},
		Elicitation: &mcp.ElicitationCapability{Form: &struct{}{}, URL: &struct{}{}},
	}
}

// An asker calls a method and answers what it is asked meanwhile.
type asker func(t *testing.T, srv *server.Server, method, params string, input answerFunc) string

// answerFunc answers one question: JSON.
type answerFunc func(q servertest.Question) string

// askers are the ways to a server: each returns the result as JSON.
func askers() map[string]asker {
	all := map[string]asker{
		"modern over HTTP":     askModernHTTP,
		"2025-11-25 over HTTP": askLegacyHTTP,
		"modern over pipes": func(t *testing.T, srv *server.Server, m, p string, in answerFunc) string {
			return askPipes(t, srv, "", m, p, in)
		},
		"2025-11-25 over pipes": func(t *testing.T, srv *server.Server, m, p string, in answerFunc) string {
			return askPipes(t, srv, mcp.Version20251125, m, p, in)
		},
	}
	for _, v := range []mcp.Version{mcp.Version20260728, mcp.Version20251125, mcp.Version20250618} {
		all[string(v)+" in memory"] = func(t *testing.T, srv *server.Server, method, params string, in answerFunc) string {
			return askMemory(t, srv, v, method, params, in)
		}
	}
	return all
}

func askMemory(t *testing.T, srv *server.Server, v mcp.Version, method, params string, in answerFunc) string {
	opts := []servertest.Option{
		servertest.Capabilities(allCapabilities()),
		servertest.OnInput(func(_ context.Context, q servertest.Question) (any, error) { return jsontext.Value(in(q)), nil }),
	}
	if v != mcp.LatestVersion {
		opts = append(opts, servertest.Legacy(v))
	}
	raw, err := servertest.Connect(t, srv, opts...).Call(t.Context(), method, jsontext.Value("{"+params+"}"))
	require.NoError(t, err)
	return string(raw)
}

// A frame is what a test reads of a message.
type frame struct {
	ID     jsontext.Value
	Method string
	Params jsontext.Value
	Result json.RawMessage
	Error  *struct {
		Code    int
		Message string
		Data    json.RawMessage
	}
}

// rounds is what a test reads of an input_required result.
type roundsResult struct {
	ResultType    string
	InputRequests map[string]struct {
		Method string
		Params jsontext.Value
	}
	RequestState string
}

// retryParams adds the answers to the params of a modern request; "" if nothing is asked.
func retryParams(t *testing.T, params string, result []byte, in answerFunc) string {
	t.Helper()
	var asked roundsResult
	require.NoError(t, json.Unmarshal(result, &asked))
	if asked.ResultType != "input_required" {
		return ""
	}
	answers := map[string]json.RawMessage{}
	for key, q := range asked.InputRequests {
		answers[key] = json.RawMessage(in(servertest.Question{Key: key, Method: q.Method, Params: q.Params}))
	}
	raw, err := json.Marshal(answers)
	require.NoError(t, err)
	return fmt.Sprintf(`%s,"inputResponses":%s,"requestState":%q`, params, raw, asked.RequestState)
}

const allCapabilitiesJSON = `{"roots":{},"sampling":{"context":{},"tools":{}},"elicitation":{"form":{},"url":{}}}`

// asking is a modern request of a client that can be asked everything.
func asking(id any, method, params string) string {
	return strings.Replace(modern(id, method, params), `clientCapabilities":{}`, `clientCapabilities":`+allCapabilitiesJSON, 1)
}

func askModernHTTP(t *testing.T, srv *server.Server, method, params string, in answerFunc) string {
	url := listen(t, srv)
	var named struct{ Name, URI string }
	require.NoError(t, json.Unmarshal([]byte("{"+params+"}"), &named))
	for id, again := 1, params; ; id++ {
		_, body := exchange(t, "POST", url, asking(id, method, again), "Mcp-Protocol-Version: 2026-07-28",
			"Mcp-Method: "+method, "Mcp-Name: "+named.Name+named.URI)
		var answer frame
		require.NoError(t, json.Unmarshal([]byte(body), &answer), body)
		require.Nil(t, answer.Error, body)
		if again = retryParams(t, params, answer.Result, in); again == "" {
			return string(answer.Result)
		}
	}
}

const initializeAll = `"capabilities":` + allCapabilitiesJSON + `,"clientInfo":{"name":"old","version":"9"}`

func askLegacyHTTP(t *testing.T, srv *server.Server, method, params string, in answerFunc) string {
	url := listen(t, srv)
	const version = "Mcp-Protocol-Version: 2025-11-25"
	res, _ := exchange(t, "POST", url, legacy("init", "initialize", `"protocolVersion":"2025-11-25",`+initializeAll))
	sid := "Mcp-Session-Id: " + res.Header.Get("Mcp-Session-Id")
	exchange(t, "POST", url, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, sid, version)

	req, err := http.NewRequestWithContext(t.Context(), "POST", url, strings.NewReader(legacy(1, method, params)))
	require.NoError(t, err)
	req.Header = http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
		"Mcp-Protocol-Version": {"2025-11-25"}, "Mcp-Session-Id": {res.Header.Get("Mcp-Session-Id")},
	}
	stream, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	require.NoError(t, err)
	defer stream.Body.Close()
	var answers sync.WaitGroup
	defer answers.Wait()
	for lines := bufio.NewScanner(stream.Body); lines.Scan(); {
		data, found := strings.CutPrefix(lines.Text(), "data: ")
		if !found || data == "" { // an event that has nothing but its id
			if !strings.HasPrefix(lines.Text(), "{") { // JSON: no question was asked
				continue
			}
			data = lines.Text()
		}
		var f frame
		require.NoError(t, json.Unmarshal([]byte(data), &f), data)
		if f.Method == "" {
			require.Nil(t, f.Error, data)
			return string(f.Result)
		}
		if f.ID != nil {
			answers.Go(func() {
				exchange(t, "POST", url, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, f.ID,
					in(servertest.Question{Method: f.Method, Params: f.Params})), sid, version)
			})
		}
	}
	t.Fatal("the stream ended without an answer")
	return ""
}

// stdioPipe is a pair of operating system pipes, as a client gives to its server.
type stdioPipe struct{ r, w *os.File }

func (p stdioPipe) Read(b []byte) (int, error)          { return p.r.Read(b) }
func (p stdioPipe) Write(b []byte) (int, error)         { return p.w.Write(b) }
func (p stdioPipe) Close() error                        { p.r.Close(); return p.w.Close() }
func (p stdioPipe) SetWriteDeadline(at time.Time) error { return p.w.SetWriteDeadline(at) }

// askPipes speaks over operating system pipes; version "" is the modern era.
func askPipes(t *testing.T, srv *server.Server, version mcp.Version, method, params string, in answerFunc) string {
	inRead, inWrite, err := os.Pipe()
	require.NoError(t, err)
	outRead, outWrite, err := os.Pipe()
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- srv.ServePipe(context.Background(), stdioPipe{inRead, outWrite}) }()
	defer func() {
		inWrite.Close()
		_, _ = io.Copy(io.Discard, outRead)
		outRead.Close()
		require.NoError(t, <-served)
	}()
	send := func(line string) {
		_, err := io.WriteString(inWrite, line+"\n")
		require.NoError(t, err)
	}
	request := asking
	if version != "" {
		request = legacy
		send(legacy("init", "initialize", `"protocolVersion":"`+string(version)+`",`+initializeAll))
		send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	}
	send(request(1, method, params))
	id := 1
	for lines := bufio.NewScanner(outRead); lines.Scan(); {
		var f frame
		require.NoError(t, json.Unmarshal(lines.Bytes(), &f))
		switch {
		case f.Method != "" && f.ID != nil:
			send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, f.ID, in(servertest.Question{Method: f.Method, Params: f.Params})))
		case string(f.ID) == fmt.Sprint(id):
			require.Nil(t, f.Error, lines.Text())
			again := retryParams(t, params, f.Result, in)
			if again == "" {
				return string(f.Result)
			}
			id++
			send(request(id, method, again))
		}
	}
	t.Fatal("the server hung up")
	return ""
}

// eachWay runs a test over every way to a server, or over those with a word in their name.
func eachWay(t *testing.T, word string, test func(t *testing.T, ask asker)) {
	for _, name := range sortedKeys(askers()) {
		if strings.Contains(name, word) {
			t.Run(name, func(t *testing.T) { test(t, askers()[name]) })
		}
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// counting answers each question with its message and how often it was asked.
func counting(t *testing.T, counts map[string]int) answerFunc {
	var mu sync.Mutex
	return func(q servertest.Question) string {
		mu.Lock()
		defer mu.Unlock()
		message := messageOf(t, q)
		counts[message]++
		return accepted(fmt.Sprint(message, counts[message]))
	}
}
