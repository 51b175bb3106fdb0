package wire

import (
	"bytes"
	"strings"
	"sync"
	"testing"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// The raw values alias the frame, and an append to one does not write into it.
func TestRawValuesAliasTheFrame(t *testing.T) {
	frame := []byte(` ` + tracedCall + ` `)
	kept := bytes.Clone(frame)
	env, err := Decode(frame, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range map[string][]byte{
		"Params": env.Params, "Arguments": env.Arguments, "Meta.Raw": env.Meta.Raw, "ClientInfo": env.Meta.ClientInfo,
		"ClientCapabilities": env.Meta.ClientCapabilities, "ProgressToken": env.Meta.ProgressToken,
	} {
		at := bytes.Index(frame, v)
		if at < 0 || &frame[at] != &v[0] {
			t.Errorf("%s does not alias the frame", name)
		}
		if cap(v) != len(v) {
			t.Errorf("%s has room for an append into the frame", name)
		}
	}
	id, method, name, trace := env.ID.Raw(), env.Method, env.Name, env.Meta.TraceParent
	clear(frame)
	if id != `"7f3a"` || method != "tools/call" || name != "echo" || !strings.HasPrefix(trace, "00-4bf9") {
		t.Error("a string of the envelope aliases the frame")
	}
	if bytes.Equal(kept, frame) {
		t.Fatal("the frame was not cleared")
	}
}

// A scanner that is used again shows nothing of the message before.
func TestReusedScannerShowsNothingOfTheLastMessage(t *testing.T) {
	for range 3 { // whichever scanner the pool gives
		if _, err := Decode([]byte(tracedCall), Limits{}); err != nil {
			t.Fatal(err)
		}
		_, _ = Decode([]byte(`{"jsonrpc":"2.0","id":1,"method":"x","params":{"_meta":{"progressToken":1`), Limits{})
		env, err := Decode([]byte(`{"jsonrpc":"2.0","method":"tools/call","params":{"_meta":{}}}`), Limits{})
		if err != nil {
			t.Fatal(err)
		}
		m := &env.Meta
		if env.HasName || !env.ID.IsZero() || m.ProgressToken != nil || m.HasProtocolVersion || m.TraceParent != "" || m.ClientInfo != nil {
			t.Fatalf("left over: %+v", env)
		}
	}
}

func TestDecodeConcurrently(t *testing.T) {
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			name := strings.Repeat("n", g+1)
			frame := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + name + `"}}`)
			for range 500 {
				if env, err := Decode(frame, Limits{}); err != nil || env.Name != name {
					t.Errorf("Decode = %q, %v", env.Name, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestLimitsDefaults(t *testing.T) {
	frame := func(n int) []byte {
		const head, tail = `{"jsonrpc":"2.0","method":"`, `"}`
		return []byte(head + strings.Repeat("x", n-len(head)-len(tail)) + tail)
	}
	if _, err := Decode(frame(4<<20), Limits{}); err != nil {
		t.Errorf("4 MiB: %v", err)
	}
	_, err := Decode(frame(4<<20+1), Limits{MaxBytes: -1})
	if e, ok := err.(*Error); !ok || e.Reason != ReasonTooLarge || e.Code != mcp.CodeInvalidRequest {
		t.Errorf("4 MiB and a byte: %v", err)
	}
	if _, err := SplitBatch([]byte("[0"+strings.Repeat(",0", 99)+"]"), Limits{}); err != nil {
		t.Errorf("100 members: %v", err)
	}
	if _, err := SplitBatch([]byte("[0"+strings.Repeat(",0", 100)+"]"), Limits{}); err == nil {
		t.Error("101 members pass")
	}
}

// A member that is not UTF-8 does not affect the others. Decode rejects it.
func TestSplitBatchLeavesUTF8ToDecode(t *testing.T) {
	members, err := SplitBatch([]byte("[{\"jsonrpc\":\"2.0\",\"method\":\"\xff\"},{\"jsonrpc\":\"2.0\",\"method\":\"x\"}]"), Limits{})
	if err != nil || len(members) != 2 {
		t.Fatalf("%d members, %v", len(members), err)
	}
	_, err = Decode(members[0], Limits{})
	if e, ok := err.(*Error); !ok || e.Reason != ReasonInvalidUTF8 {
		t.Errorf("the bad member: %v", err)
	}
	if _, err := Decode(members[1], Limits{}); err != nil {
		t.Errorf("the good member: %v", err)
	}
}

func TestIsBatch(t *testing.T) {
	for frame, want := range map[string]bool{
		"[": true, " \t\r\n[]": true, "": false, " ": false, "{}": false, "1[": false, "\v[": false, "\ufeff[]": false,
	} {
		if got := IsBatch([]byte(frame)); got != want {
			t.Errorf("%q: %t", frame, got)
		}
	}
}

// Messages are sent to the peer. They must be short for every frame.
func TestErrorMessagesAreShort(t *testing.T) {
	long := strings.Repeat("é", 1<<16)
	for _, frame := range []string{
		`{"` + long + `":1,"` + long + `":1}`,
		`{"a":"` + long + "\x01" + `"}`,
		`{"a":"\ud800` + long + `"}`,
		long,
		`"` + long + `"`,
		`{"jsonrpc":"` + long + `"}`,
		`{"jsonrpc":"2.0","id":1` + strings.Repeat("0", 1<<16) + `,"method":"x"}`,
	} {
		_, err := Decode([]byte(frame), Limits{})
		e, ok := err.(*Error)
		if !ok || len(e.Message) > 200 {
			t.Errorf("%.20s: %v", frame, err)
		}
		if !strings.Contains(e.Error(), e.Message) || !strings.Contains(e.Error(), string(e.Reason)) {
			t.Errorf("Error() = %q", e.Error())
		}
		if e.RPC().Code != e.Code || e.RPC().Message != e.Message {
			t.Errorf("RPC() = %v", e.RPC())
		}
	}
}

func TestCheckModernMetaWithoutParams(t *testing.T) {
	for _, params := range []string{``, `,"params":[]`, `,"params":{}`} {
		env, err := Decode([]byte(`{"jsonrpc":"2.0","id":1,"method":"x"`+params+`}`), Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if e := env.CheckModernMeta(); e == nil || e.Code != mcp.CodeInvalidParams || !strings.Contains(e.Message, "_meta") {
			t.Errorf("params %q: %v", params, e)
		}
	}
}

func TestInternedNamesAreRight(t *testing.T) {
	for _, method := range []string{
		"server/discover", "initialize", "ping", "tools/list", "tools/call", "prompts/list", "prompts/get",
		"resources/list", "resources/templates/list", "resources/read", "resources/subscribe", "resources/unsubscribe",
		"completion/complete", "logging/setLevel", "subscriptions/listen", "tasks/get", "tasks/update", "tasks/cancel",
		"notifications/initialized", "notifications/cancelled", "notifications/progress", "notifications/roots/list_changed",
	} {
		b := []byte(method)
		if got := internMethod(b); got.name != method || got.target != mcp.NameMember(method) {
			t.Errorf("internMethod(%q) = %+v", method, got)
		}
		if n := testing.AllocsPerRun(10, func() { internMethod(b) }); n != 0 {
			t.Errorf("internMethod(%q) allocates", method)
		}
	}
	for _, era := range []mcp.Era{mcp.Modern, mcp.Legacy} {
		for _, v := range mcp.Versions(era) {
			if got := internVersion([]byte(v)); got != string(v) {
				t.Errorf("internVersion(%q) = %q", v, got)
			}
		}
	}
}
