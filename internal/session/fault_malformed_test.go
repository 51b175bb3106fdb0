package session

import (
	"fmt"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A badFrame is one kind of malformed input on a byte stream.
type badFrame struct {
	name, frame string
	id          string // of the error; "" is none
	code        mcp.Code
	message     string // "" if there is no answer
	counts      counts
}

var (
	parseErrors  = counts{"rejected/parse_error": 1}
	notMessages  = counts{"ignored/frame/not_jsonrpc": 1}
	badResponses = counts{"ignored/response/malformed": 1}
)

// badFrames are malformed frames of every kind.
var badFrames = []badFrame{
	{"not JSON", `hello`, "", -32700, `invalid JSON: invalid character 'h' at start of value at byte 0`, parseErrors},
	{"cut off", `{"jsonrpc":"2.0","id":1,"met`, "", -32700, `invalid JSON: unexpected EOF at byte 28`, parseErrors},
	{"trailing data", `{"jsonrpc":"2.0","id":1,"method":"ping"} x`, "", -32700,
		`invalid JSON: unexpected data after the message at byte 41`, parseErrors},
	{"NUL", "{\"jsonrpc\":\"2.0\",\x00\"id\":1}", "", -32700, "", parseErrors},
	{"NUL in a string", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"p\x00ng\"}", "", -32700, "", parseErrors},
	{"invalid UTF-8", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"p\xffng\"}", "", -32700,
		`the message is not valid UTF-8 at byte 35`, counts{"ignored/frame/invalid_utf8": 1}},
	{"duplicate key", `{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`, "", -32700,
		`duplicate member name at /id`, parseErrors},
	{"depth bomb", `{"jsonrpc":"2.0","id":5,"method":"ping","params":` + strings.Repeat(`{"a":`, 70) + `1` + strings.Repeat(`}`, 71), "5", -32700,
		`the message nests deeper than 64 levels`, counts{"ignored/frame/too_deep": 1, "limit/max_depth": 1}},
	{"array bomb", strings.Repeat(`[`, 20000), "", -32600, `a message must be a single object, not an array`,
		counts{"ignored/frame/batch": 1}},
	{"unclosed depth bomb", strings.Repeat(`{"a":`, 20000), "", -32700,
		`the message nests deeper than 64 levels`, counts{"ignored/frame/too_deep": 1, "limit/max_depth": 1}},
	{"batch", `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, "", -32600,
		`a message must be a single object, not an array`, counts{"ignored/frame/batch": 1}},
	{"scalar", `42`, "", -32600, `a message must be an object`, notMessages},
	{"no jsonrpc", `{"id":5,"method":"ping"}`, "5", -32600, `member "jsonrpc" is missing`, notMessages},
	{"wrong jsonrpc", `{"jsonrpc":"1.0","id":5,"method":"ping"}`, "5", -32600, `member "jsonrpc" must be "2.0"`, notMessages},
	{"numeric jsonrpc", `{"jsonrpc":2.0,"id":5,"method":"ping"}`, "5", -32600, `member "jsonrpc" must be "2.0"`, notMessages},
	{"id 1.5", `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, "", -32600, `member "id" must be a string or an integer`, notMessages},
	{"id null", `{"jsonrpc":"2.0","id":null,"method":"ping"}`, "", -32600, `member "id" must be a string or an integer`, notMessages},
	{"id true", `{"jsonrpc":"2.0","id":true,"method":"ping"}`, "", -32600, `member "id" must be a string or an integer`, notMessages},
	{"id object", `{"jsonrpc":"2.0","id":{},"method":"ping"}`, "", -32600, `member "id" must be a string or an integer`, notMessages},
	{"huge id", `{"jsonrpc":"2.0","id":1e999999999,"method":"ping"}`, "", -32600, `member "id" must be a string or an integer`, notMessages},
	{"method is a number", `{"jsonrpc":"2.0","id":5,"method":1}`, "5", -32600, `member "method" must be a string`, notMessages},
	{"no method", `{"jsonrpc":"2.0","id":5}`, "5", -32600, `a message must have "method", "result" or "error"`, notMessages},
	{"params is a string", `{"jsonrpc":"2.0","id":5,"method":"ping","params":"x"}`, "5", -32600,
		`member "params" must be an object or an array`, notMessages},
	// These are never answered.
	{"notification", `{"jsonrpc":"1.0","method":"notifications/cancelled","params":{"requestId":7}}`, "", 0, "", notMessages},
	{"cancel of true", cancelFrame("true", ""), "", 0, "", counts{"ignored/cancel/malformed": 1}},
	{"response", `{"jsonrpc":"2.0","id":1,"result":{},"error":{}}`, "", 0, "", badResponses},
	{"response without id", `{"jsonrpc":"2.0","result":{}}`, "", 0, "", badResponses},
}

// E15: malformed input on a byte stream.
var cellsE15 = []faultCell{
	{state: "frames", test: func(w *world) {
		a := w.asker("work", false)
		p := w.connect(true)
		p.call("7", "work")
		h := a.blocked()
		for _, bad := range badFrames {
			before, sent := w.counts(), len(p.frames())
			p.send(bad.frame)
			answers := p.frames()[sent:]
			switch {
			case bad.code == 0:
				require.Empty(w.t, answers, bad.name)
			case bad.message == "":
				require.Len(w.t, answers, 1, bad.name)
				hasError(w.t, answers[0], bad.id, bad.code, "")
			default:
				require.Equal(w.t, []string{errorFrame(bad.id, bad.code, bad.message)}, answers, bad.name)
			}
			require.Equal(w.t, bad.counts, w.counts().since(before), bad.name)
			time.Sleep(time.Second) // the replies are rate-limited
		}
		before := w.counts()
		p.s.Malformed(&wire.Error{Code: mcp.CodeInvalidRequest, Reason: wire.ReasonTooLarge, Message: "too large"})
		require.Equal(w.t, errorFrame("", -32600, "too large"), p.last())
		require.Equal(w.t, counts{"rejected/too_large": 1, "limit/max_frame_bytes": 1}, w.counts().since(before))
		w.logged("INFO frame.malformed")

		// The session and its requests have not noticed.
		require.Empty(w.t, h.cause())
		require.Empty(w.t, a.answers)
		p.send(replyFrame("1", `{}`))
		require.NoError(w.t, a.answer().err)
		a.next().finish("done")
		require.Equal(w.t, resultFrame("7", "done"), p.last())
	}},
	{state: "consecutive", limits: limits.Limits{MaxConsecutiveMalformed: 30}, test: func(w *world) {
		g := w.gate("work", false)
		p := w.connect(true)
		p.call("1", "work")
		h := g.next()
		for range 29 {
			p.send(`garbage`)
		}
		require.Len(w.t, p.frames(), maxErrorsPerSecond, "the replies are rate-limited")
		time.Sleep(time.Second)
		p.send(`{"jsonrpc":"2.0","method":"notifications/x"}`) // now they are not in a row
		for range 29 {
			p.send(`garbage`)
		}
		require.Len(w.t, p.frames(), 2*maxErrorsPerSecond)
		require.Empty(w.t, h.cause())
		before := w.counts()
		p.send(`garbage`)
		<-p.s.Done()
		require.Equal(w.t, "transport_error", h.cause())
		require.Len(w.t, p.frames(), 2*maxErrorsPerSecond, "nothing is said to the peer about it")
		require.Equal(w.t, counts{
			"rejected/parse_error": 1, "limit/max_consecutive_malformed": 1,
			"dropped/closed_writer": 1, "cancelled/transport_error": 1,
		}, w.counts().since(before))
		w.loggedWith("WARN session.peer_lost", "malformed")
		w.loggedWith("INFO session.closed", "cause=transport_error")
	}},
	{state: "live-id", test: func(w *world) {
		g := w.gate("work", false)
		p := w.connect(true)
		p.call("1", "work")
		h := g.next()
		p.send(`{"jsonrpc":"1.0","id":1.0,"method":"ping"}`)
		p.send(`{"jsonrpc":"1.0","id":"1","method":"ping"}`) // another id, and free
		require.Equal(w.t, []string{
			errorFrame("", -32600, `member "jsonrpc" must be "2.0"`),
			errorFrame(`"1"`, -32600, `member "jsonrpc" must be "2.0"`),
		}, p.frames())
		h.finish("done")
		require.Equal(w.t, resultFrame("1", "done"), p.frames()[2])
		require.Equal(w.t, counts{"admitted": 1, "sent": 1, "ignored/frame/not_jsonrpc": 2}, w.counts())
	}},
	{state: "null-id", test: func(w *world) {
		p := w.connect(true)
		for version, id := range map[mcp.Version]string{
			mcp.Version20241105: "null", mcp.Version20250326: "null", mcp.Version20250618: "null", mcp.Version20251125: "",
		} {
			p.s.Initialize(&Peer{Version: version})
			p.send(`garbage`)
			hasError(w.t, p.last(), id, mcp.CodeParseError, "")
			p.send(`{"jsonrpc":"2.0","id":5,"method":1}`) // its id can be read
			hasError(w.t, p.last(), "5", mcp.CodeInvalidRequest, "")
		}
		require.Equal(w.t, counts{"rejected/parse_error": 4, "ignored/frame/not_jsonrpc": 4}, w.counts())
	}},
	{state: "wedged", limits: limits.Limits{MaxQueuedMessages: 3}, test: func(w *world) {
		// A peer that sends garbage with ids and reads nothing costs no memory.
		p := w.connect(true)
		p.sink.on(blockUntil(nil))
		for range 50 {
			p.send(`{"jsonrpc":"1.0","id":5,"method":"ping"}`)
			w.settle()
		}
		require.Equal(w.t, counts{"ignored/frame/not_jsonrpc": 50, "limit/max_queued_messages": 46}, w.counts())

		time.Sleep(w.core.limits.WriteTimeout) // a write error caused by a reply is E5
		<-p.s.Done()
		require.Equal(w.t, uint64(50), w.counts()["ignored/frame/not_jsonrpc"], "not a second malformed frame")
		require.Equal(w.t, 1, w.times("WARN session.peer_lost"))
	}},
}

func errorFrame(id string, code mcp.Code, message string) string {
	if id != "" {
		id = `,"id":` + id
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0"%s,"error":{"code":%d,"message":%q}}`, id, code, message)
}

// last returns the last frame that the peer has received.
func (p *peer) last() string {
	frames := p.frames()
	require.NotEmpty(p.w.t, frames)
	return frames[len(frames)-1]
}
