package wire

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// addScripts seeds a fuzz target with the frames of the golden scripts.
func addScripts(f *testing.F) {
	f.Add([]byte(modernCall))
	f.Add([]byte(tracedCall))
	files, _ := filepath.Glob("testdata/*.txt")
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
			for _, verb := range []string{"decode ", "split "} {
				if frame, ok := strings.CutPrefix(s.Text(), verb); ok {
					f.Add([]byte(frame))
				}
			}
		}
	}
}

// plainMessage is what a decoder by reflection makes of a message.
type plainMessage struct {
	JSONRPC jsontext.Value `json:"jsonrpc"`
	ID      jsontext.Value `json:"id"`
	Method  *string        `json:"method"`
	Params  jsontext.Value `json:"params"`
	Result  jsontext.Value `json:"result"`
	Error   jsontext.Value `json:"error"`
}

type plainMeta struct {
	Meta struct {
		Version jsontext.Value `json:"io.modelcontextprotocol/protocolVersion"`
		Info    jsontext.Value `json:"io.modelcontextprotocol/clientInfo"`
		Token   jsontext.Value `json:"progressToken"`
	} `json:"_meta"`
	Name      jsontext.Value `json:"name"`
	Arguments jsontext.Value `json:"arguments"`
}

func FuzzDecode(f *testing.F) {
	addScripts(f)
	lim := Limits{MaxBytes: 1 << 16, MaxDepth: 16, MaxBatch: 10}
	f.Fuzz(func(t *testing.T, frame []byte) {
		kept := bytes.Clone(frame)
		env, err := Decode(frame, lim)
		if !bytes.Equal(kept, frame) {
			t.Fatal("the frame was written to")
		}
		if err != nil {
			checkRefusal(t, frame, err, lim)
			return
		}
		if !jsontext.Value(frame).IsValid() {
			t.Fatal("accepted what is not valid JSON")
		}
		if treeDepth(frame) > lim.MaxDepth {
			t.Fatal("accepted what is too deep")
		}
		checkAgainstPlain(t, frame, &env)
		checkRoundTrip(t, &env, lim)
		_ = env.CheckModernMeta()
	})
}

func checkRefusal(t *testing.T, frame []byte, err error, lim Limits) {
	e, ok := err.(*Error)
	if !ok {
		t.Fatalf("foreign error %v", err)
	}
	if e.Message == "" || len(e.Message) > 200 || !utf8.ValidString(e.Message) {
		t.Fatalf("message %q", e.Message)
	}
	valid := jsontext.Value(frame).IsValid()
	switch e.Reason {
	case ReasonParseError, ReasonInvalidUTF8:
		if valid || e.Code != mcp.CodeParseError || !e.ID.IsZero() {
			t.Fatalf("valid %t, %+v", valid, e)
		}
	case ReasonTooDeep:
		if valid && treeDepth(frame) <= lim.MaxDepth || e.Code != mcp.CodeParseError {
			t.Fatalf("%+v", e)
		}
	case ReasonNotJSONRPC, ReasonInvalidRequest:
		if !valid || e.Code != mcp.CodeInvalidRequest || e.ID.IsZero() != (e.Reason == ReasonNotJSONRPC) {
			t.Fatalf("valid %t, %+v", valid, e)
		}
	case ReasonBatch:
		if bytes.TrimLeft(frame, " \t\r\n")[0] != '[' || e.Code != mcp.CodeInvalidRequest {
			t.Fatalf("%+v", e)
		}
	case ReasonTooLarge:
		if len(frame) <= lim.MaxBytes {
			t.Fatalf("%+v", e)
		}
	default:
		t.Fatalf("reason %q", e.Reason)
	}
	checkFrame(t, AppendError(nil, e.ID, e.RPC()))
}

// treeDepth measures nesting with the decoder's own stack.
func treeDepth(frame []byte) (deepest int) {
	d := jsontext.NewDecoder(bytes.NewReader(frame))
	for {
		if _, err := d.ReadToken(); err != nil {
			return deepest
		}
		deepest = max(deepest, d.StackDepth())
	}
}

func checkAgainstPlain(t *testing.T, frame []byte, env *Envelope) {
	var plain plainMessage
	if err := json.Unmarshal(frame, &plain); err != nil {
		t.Fatalf("accepted what json refuses: %v", err)
	}
	if env.Kind == Invalid {
		t.Fatal("accepted an invalid message")
	}
	if id := string(plain.ID); id != env.ID.Raw() && (id != "null" || env.Kind != Response) {
		t.Fatalf("id %q, json has %q", env.ID.Raw(), id)
	}
	if (env.Kind == Notification) != (plain.Method != nil && plain.ID == nil) || (env.Kind == Response) != (plain.Method == nil) {
		t.Fatalf("kind %s of %s", env.Kind, frame)
	}
	if env.Kind == Response {
		if !bytes.Equal(env.Result, plain.Result) || !bytes.Equal(env.Error, plain.Error) {
			t.Fatal("result or error differs")
		}
		return
	}
	if env.Method != *plain.Method || !bytes.Equal(env.Params, plain.Params) {
		t.Fatalf("method %q params %s, json has %q %s", env.Method, env.Params, *plain.Method, plain.Params)
	}
	var params plainMeta
	if env.Params.Kind() != '{' || env.Meta.Present && !env.Meta.IsObject {
		return
	}
	if err := json.Unmarshal(env.Params, &params); err != nil {
		t.Fatal(err)
	}
	var name string
	isName := json.Unmarshal(params.Name, &name) == nil && params.Name.Kind() == '"'
	if mcp.NameMember(env.Method) == "name" && (env.HasName != isName || isName && env.Name != name) {
		t.Fatalf("name %q %t, json has %s", env.Name, env.HasName, params.Name)
	}
	if !bytes.Equal(env.Arguments, params.Arguments) {
		t.Fatalf("arguments %s, json has %s", env.Arguments, params.Arguments)
	}
	m := &env.Meta
	if m.HasProtocolVersion != (params.Meta.Version != nil) || !bytes.Equal(m.ClientInfo, params.Meta.Info) ||
		!bytes.Equal(m.ProgressToken, params.Meta.Token) {
		t.Fatalf("meta %+v, json has %+v", m, params.Meta)
	}
}

// checkRoundTrip encodes the message again and decodes that.
func checkRoundTrip(t *testing.T, env *Envelope, lim Limits) {
	var frame []byte
	switch env.Kind {
	case Request:
		frame = AppendRequest(nil, env.ID, env.Method, env.Params)
	case Notification:
		frame = AppendNotification(nil, env.Method, env.Params)
	case Response:
		if env.Error != nil {
			return
		}
		frame = append(appendRaw(AppendResponseHead(nil, env.ID), env.Result), '}')
	}
	checkFrame(t, frame)
	lim.MaxBytes *= 2 // escapes may come out longer than they went in
	again, err := Decode(frame, lim)
	if err != nil {
		t.Fatalf("%s: %v", frame, err)
	}
	if a, b := flat(*env), flat(again); !reflect.DeepEqual(a, b) {
		t.Fatalf("round trip:\n%+v\n%+v", a, b)
	}
}

// flat makes raw values comparable: on one line, as the encoder sends them.
func flat(env Envelope) Envelope {
	m := &env.Meta
	for _, v := range []*jsontext.Value{
		&env.Params, &env.Arguments, &env.Result, &m.Raw, &m.ClientInfo, &m.ClientCapabilities, &m.LogLevel, &m.ProgressToken,
	} {
		if *v != nil {
			*v = appendRaw(nil, *v)
		}
	}
	return env
}

func FuzzSplitBatch(f *testing.F) {
	addScripts(f)
	lim := Limits{MaxBatch: 5}
	f.Fuzz(func(t *testing.T, frame []byte) {
		members, err := SplitBatch(frame, lim)
		if err != nil {
			if e, ok := err.(*Error); !ok || e.Message == "" || !e.ID.IsZero() {
				t.Fatalf("%v", err)
			}
			return
		}
		var plain []jsontext.Value
		lenient := json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
		if err := json.Unmarshal(frame, &plain, lenient); err != nil || len(plain) != len(members) || len(plain) == 0 || len(plain) > 5 {
			t.Fatalf("%d members, json has %d, %v", len(members), len(plain), err)
		}
		for i := range members {
			if !bytes.Equal(members[i], plain[i]) || cap(members[i]) != len(members[i]) {
				t.Fatalf("member %d is %s, json has %s", i, members[i], plain[i])
			}
		}
	})
}

func FuzzID(f *testing.F) {
	for _, s := range []string{
		`1`, `1.0`, `1e0`, `10e-1`, `-0`, `1.5`, `null`, `true`, `1e400`, `""`, `"1"`, `"\u0031"`, `"\ud83d\ude00"`, `[]`,
		strings.Repeat("9", 64), strings.Repeat("9", 65), `1e2147483647`, `1e-2147483648`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		frame := []byte(`{"jsonrpc":"2.0","method":"x","id":` + raw + `}`)
		env, err := Decode(frame, Limits{})
		if err != nil || env.Kind != Request || env.Params != nil || env.Method != "x" {
			return // raw is no id, or more than an id
		}
		id := env.ID
		if id.IsZero() || id.Key() == "" || id.Raw() != strings.Trim(raw, " \t\r\n") && !strings.Contains(raw, ",") {
			t.Fatalf("id %q of %q", id.Raw(), raw)
		}
		// The key is an id itself, and its own key.
		again, err := Decode([]byte(`{"jsonrpc":"2.0","method":"x","id":`+id.Key()+`}`), Limits{})
		if err != nil || again.ID.Key() != id.Key() {
			t.Fatalf("key %q of %q has key %q, %v", id.Key(), raw, again.ID.Key(), err)
		}
		back, err := Decode(AppendRequest(nil, id, "x", nil), Limits{})
		if err != nil || back.ID != id {
			t.Fatalf("id %q came back as %q, %v", id.Raw(), back.ID.Raw(), err)
		}
		if jsontext.Value(id.Raw()).Kind() == '"' {
			var s string
			if err := json.Unmarshal([]byte(id.Raw()), &s); err != nil || s != id.String() || mcp.StringID(s).Key() != id.Key() {
				t.Fatalf("id %q reads %q, json has %q, %v", id.Raw(), id.String(), s, err)
			}
		}
	})
}
