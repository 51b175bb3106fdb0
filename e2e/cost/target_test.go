//go:build unix

package cost

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
)

// A target is one place in a request for bytes from outside.
type target struct {
	name    string
	json    bool     // payloads are JSON
	seeds   []string // payloads to begin with
	most    int      // bytes of a payload
	request func(payload string) request
}

// A request is an HTTP request.
type request struct {
	header map[string]string
	body   string
	method string // "" is POST; another one may open a stream
	legacy bool   // it is of the session
	wire   bool   // it is sent over a connection
	lines  string // more headers of a request over a connection, with line ends
}

const (
	sessionHeader = "Mcp-Session-Id"
	// sessionMark stands for the id of the session, which is another one in each run.
	sessionMark = "{session}"
	batchesMark = "{batches}" // the same for the session that has batches
)

func (r request) size() (n int) {
	for name, value := range r.header {
		n += len(name) + len(value)
	}
	return n + len(r.lines) + len(r.body)
}

// modern returns a request of the modern era. name is for the header Mcp-Name.
func modern(method, name, params string) request {
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}}`
	if params != "" {
		params = "," + params
	}
	r := request{header: map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method},
		body: fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s%s}}`, method, meta, params)}
	if name != "" {
		r.header["Mcp-Name"] = name
	}
	return r
}

// legacy returns a request of the session.
func legacy(body string) request {
	return request{header: map[string]string{"Mcp-Protocol-Version": "2025-11-25"}, body: body, legacy: true}
}

// echo returns an echo of as many bytes as a request. That of a batch is a batch of as many echoes.
func (t target) echo(r request) request {
	var members []jsontext.Value
	if t.name == servedBatch && json.Unmarshal([]byte(r.body), &members) == nil && len(members) > 0 {
		text := strings.Repeat("x", max(0, len(r.body)/len(members)-len(echoMember(0, ""))))
		for i := range members {
			members[i] = jsontext.Value(echoMember(i, text))
		}
		body, _ := json.Marshal(members) // they are valid
		return request{header: r.header, body: string(body)}
	}
	other := echoRequest(max(r.size()-echoRequest(0).size(), 0))
	other.wire = r.wire
	return other
}

func echoMember(id int, text string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{"text":%q}}}`, id, text)
}

// batches returns batches of as many messages as are allowed.
func batches() (all []string) {
	for _, message := range []string{
		`"id":%d,"method":"ping"`,
		`"id":%d,"method":"tools/call","params":{"name":"echo","arguments":{"text":"a b"}}`,
		`"id":%d,"method":"tools/call","params":{"name":"typed","arguments":{"any":[{"a":1},[]]}}`,
		`"id":%d,"method":"tools/call","params":{"name":"` + toolName("recursive anyOf") + `","arguments":{"value":{"a":{"a":{"a":1}}}}}`,
		`"method":"notifications/cancelled","params":{"requestId":%d}`,
	} {
		var members []string
		for i := range 100 {
			members = append(members, fmt.Sprintf(`{"jsonrpc":"2.0",`+message+`}`, i))
		}
		all = append(all, "["+strings.Join(members, ",")+"]")
	}
	return all
}

func quoted(text string) string {
	raw, _ := json.Marshal(text) // a string can be encoded
	return string(raw)
}

// schemas are the schemas of tools, by name. $defs/v is the schema of the payload.
var schemas = map[string]string{
	"recursive anyOf": `"v":{"anyOf":[{"type":"object","properties":{"a":{"$ref":"#/$defs/v"},"k":{"const":"x"}},"required":["b"]},{"type":"object","properties":{"a":{"$ref":"#/$defs/v"}},"required":["c"]},{"type":"array","items":{"$ref":"#/$defs/v"}}]}`,
	"recursive oneOf": `"v":{"oneOf":[{"type":"null"},{"properties":{"a":{"$ref":"#/$defs/v"}},"items":{"$ref":"#/$defs/v"}},{"properties":{"a":{"$ref":"#/$defs/v"}},"items":{"type":"string"},"required":["c"]}]}`,
	"recursive not":   `"v":{"not":{"required":["z"]},"if":{"required":["a"]},"then":{"properties":{"a":{"$ref":"#/$defs/v"}}},"else":{"additionalProperties":{"$ref":"#/$defs/v"}},"allOf":[{"items":{"$ref":"#/$defs/v"}},{"items":{"$ref":"#/$defs/v"}}]}`,
	"two ways":        `"v":{"properties":{"a":{"$ref":"#/$defs/w"}},"additionalProperties":{"$ref":"#/$defs/v"},"items":{"$ref":"#/$defs/w"}},"w":{"anyOf":[{"$ref":"#/$defs/v"},{"type":"integer"}]}`,
	"strings":         `"v":{"type":"array","items":{"type":"string","minLength":3,"maxLength":5}}`,
	"numbers":         `"v":{"items":{"type":"number","minimum":0.5,"exclusiveMaximum":1e300,"multipleOf":0.01}}`,
	"large multiple":  `"v":{"items":{"multipleOf":12345678901234567890123}}`,
	"unique":          `"v":{"uniqueItems":true}`,
	"unique trees":    `"v":{"uniqueItems":true,"items":{"$ref":"#/$defs/v"},"additionalProperties":{"$ref":"#/$defs/v"}}`,
	"enum":            `"v":{"items":{"enum":[0,1.5,"a",[1,{"a":2}],{"a":[1,2,3],"b":null}]},"additionalProperties":{"const":{"a":{"b":{"c":[1]}}}}}`,
	"members":         `"v":{"propertyNames":{"pattern":"^[a-z_]+$","maxLength":20},"patternProperties":{"^x-":{"type":"string"},"[0-9]$":true},"additionalProperties":{"type":["integer","object"]},"maxProperties":100000}`,
	"patterns":        `"v":{"anyOf":[{"pattern":"^[^@\\s]+@[^@\\s]+\\.[a-z]+$"},{"pattern":"^(\\d{1,3}\\.){3}\\d{1,3}$"},{"pattern":"^([a-z]+-)*[a-z]+$"},{"items":{"$ref":"#/$defs/v"}}]}`,
	"dependencies":    `"v":{"dependentRequired":{"a":["b","c"],"b":["a"]},"dependentSchemas":{"c":{"additionalProperties":{"$ref":"#/$defs/v"}}},"minProperties":1}`,
	"unevaluated":     `"v":{"anyOf":[{"properties":{"a":{"$ref":"#/$defs/v"}}},{"patternProperties":{"^b":true}},{"prefixItems":[true,{"$ref":"#/$defs/v"}]}],"unevaluatedProperties":{"$ref":"#/$defs/v"},"unevaluatedItems":{"type":"integer"}}`,
	"contains":        `"v":{"contains":{"type":"object","required":["a"]},"minContains":2,"maxContains":5,"items":{"anyOf":[{"$ref":"#/$defs/v"},{"type":"integer"}]}}`,
	"anything":        `"v":true`,
}

// formats are checked in drafts before 2019-09.
var formats = []string{"date-time", "email", "hostname", "ipv4", "ipv6", "uri", "uri-reference", "iri", "json-pointer", "regex", "uri-template", "date", "time"}

// deep has many levels: the stack grows for it.
var deep = strings.Repeat(`{"c":`, 50) + "1" + strings.Repeat("}", 50)

// valueSeeds are payloads for every schema.
var valueSeeds = []string{
	`{"a":{"a":{"a":1}}}`, deep, `[[[1]],[[2]]]`, `[1,2,3,1.5,"x",null]`, `["a","b","c"]`, `{"a":1,"b":2,"c":{"d":[]}}`,
	`"aaaaaaaaaaaa"`, `[1e300,0.01,123456789012345678901234567890]`, `[{"a":1,"b":2},{"b":2,"a":1}]`, `{"x-a":"b","n1":2}`,
}

type valueInput struct {
	Value jsontext.Value `json:"value"`
}

// typed has a field for each way of decoding a Go value.
type typed struct {
	Text   string            `json:"text,omitempty" pattern:"^[a-z ]*$"`
	Number float64           `json:"number,omitempty"`
	Count  int               `json:"count,omitempty" minimum:"0" default:"3"`
	Sort   string            `json:"sort,omitempty" enum:"date,relevance"`
	Tags   []string          `json:"tags,omitempty" uniqueItems:"true"`
	Rows   []row             `json:"rows,omitempty"`
	Named  map[string]string `json:"named,omitempty"`
	Deep   struct {
		Deeper struct {
			Row row `json:"row,omitzero"`
		} `json:"deeper,omitzero"`
	} `json:"deep,omitzero"`
	Bytes []byte `json:"bytes,omitempty"`
	Wide  []struct {
		Names [6]string `json:"names,omitzero"`
		Tags  []string  `json:"tags,omitempty"`
		Size  float64   `json:"size,omitempty"`
	} `json:"wide,omitempty"`
	Any any `json:"any,omitempty"`
}

// loose and plain have no rule but those of their Go types, so that a value is decoded before it is validated.
type loose struct {
	Any   any   `json:"any,omitempty"`
	Count int64 `json:"count,omitempty"`
}

type plain struct {
	Floats []float64         `json:"floats,omitempty"`
	Ints   []int8            `json:"ints,omitempty"`
	Names  map[string]string `json:"names,omitempty"`
	Rows   []struct {
		At time.Time `json:"at,omitzero"`
	} `json:"rows,omitempty"`
	Count int64 `json:"count,omitempty"`
}

// A degree is a float of a type of its own, which needs a decoder of its own.
type degree float32

type weather struct {
	Degrees []degree `json:"degrees,omitempty"`
}

type question struct {
	Text  string   `json:"text" format:"email" maxLength:"100"`
	Tags  []string `json:"tags,omitempty" enum:"a,b,c" maxItems:"2"`
	Count int      `json:"count,omitempty"`
}

type row struct {
	ID   int64  `json:"id"`
	Name string `json:"name" maxLength:"40"`
}

// addTools adds the tools of the targets.
func addTools(srv *server.Server) {
	server.AddTool(srv, server.Tool{Name: "echo"}, func(_ context.Context, _ *server.Call, in struct {
		Text string `json:"text"`
	}) (string, error) {
		return in.Text, nil
	})
	server.AddTool(srv, server.Tool{Name: "typed"}, func(context.Context, *server.Call, typed) (string, error) { return "", nil })
	server.AddTool(srv, server.Tool{Name: "loose"}, func(context.Context, *server.Call, loose) (string, error) { return "", nil })
	server.AddTool(srv, server.Tool{Name: "plain"}, func(context.Context, *server.Call, plain) (string, error) { return "", nil })
	server.AddTool(srv, server.Tool{Name: "weather"}, func(context.Context, *server.Call, weather) (string, error) { return "", nil })
	server.AddTool(srv, server.Tool{Name: "capable"}, func(_ context.Context, call *server.Call, _ struct{}) (string, error) {
		return fmt.Sprint(len(call.Capabilities().Experimental)), nil
	})
	server.AddTool(srv, server.Tool{Name: "asking"}, func(_ context.Context, call *server.Call, _ struct{}) (string, error) {
		answer, _, err := server.ElicitForm[question](call, "q", "what?")
		return answer.Text, err
	})
	// No target of the search: it takes more than a request may.
	server.AddTool(srv, server.Tool{Name: "pairs"}, func(_ context.Context, _ *server.Call, in struct {
		Value []int `json:"value"`
	}) (string, error) {
		sum := 0
		for _, a := range in.Value {
			for _, b := range in.Value {
				sum += a ^ b
			}
		}
		return fmt.Sprint(sum), nil
	})
	for name, defs := range schemas {
		addSchema(srv, name, "", defs)
	}
	for _, format := range formats {
		addSchema(srv, "format "+format, `"$schema":"http://json-schema.org/draft-07/schema#",`,
			fmt.Sprintf(`"v":{"format":%q,"items":{"$ref":"#/$defs/v"}}`, format))
	}
}

func toolName(schema string) string { return strings.ReplaceAll(schema, " ", "-") }

func addSchema(srv *server.Server, name, dialect, defs string) {
	server.AddTool(srv, server.Tool{Name: toolName(name), InputSchema: jsontext.Value(fmt.Sprintf(
		`{%s"type":"object","properties":{"value":{"$ref":"#/$defs/v"}},"$defs":{%s}}`, dialect, defs))},
		func(context.Context, *server.Call, valueInput) (string, error) { return "", nil })
}

// templates are costly to match, by name.
var templates = map[string]string{
	"bounded": "bounded:{a:100}{b:100}{c:100}{d:100}{e:100}/x", "lists": "lists:{/a*}{?b*,c,d}{&e*}/x", "names": "names:{;a,b,c,d,e*}x",
	"anything": "anything:{+a}{b}{+c}{d}{+e}!!", "dots": "dots:{.a*}{.b*}{.c*}/", "many": "many:{?a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p}/",
}

var uriSeeds = []string{"aaaaaaaaaa", "/a/b/c?b=1&b=2&c=3", ";a=1;b;c=2", "%C3%BC%C3%BCab", ".a.b.c.d", "?a=1&b=2&p=3", "a,b,c,d"}

func addResources(srv *server.Server) {
	for name, template := range templates {
		for _, end := range []string{"1", "2", "3", "4", "5"} {
			server.AddResourceTemplate(srv, server.ResourceTemplate{URITemplate: template + end, Name: name + end,
				Complete: map[string]server.CompleteFunc{"a": server.CompleteFrom("one", "two", "three")}},
				func(context.Context, *server.Call, string, map[string]string) (string, error) { return "", nil })
		}
	}
	for i := range 300 {
		server.AddStaticResource(srv, server.Resource{URI: fmt.Sprint("list:", i), Name: "n"}, "x")
	}
	server.AddPrompt(srv, server.Prompt{Name: "p", Arguments: []server.PromptArgument{{Name: "a", Complete: server.CompleteFrom("one", "two")}}},
		func(context.Context, *server.Call, map[string]string) (*mcp.GetPromptResult, error) {
			return &mcp.GetPromptResult{}, nil
		})
}

// call returns calls of a tool with a payload as its value.
func call(tool string) func(string) request {
	return func(payload string) request {
		return modern(mcp.MethodToolsCall, toolName(tool), fmt.Sprintf(`"name":%q,"arguments":{"value":%s}`, toolName(tool), payload))
	}
}

// These targets have payloads that become Go values, also of type any.
const (
	typedArguments = "typed arguments"
	looseArguments = "loose arguments"
	servedBatch    = "served batch"

	nested = `{"any":[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]}` // the most lists of one item
)

// targets returns all targets.
func targets() (all []target) {
	for name := range schemas {
		all = append(all, target{"schema " + name, true, valueSeeds, maxSmall, call(name)})
	}
	for _, format := range formats {
		seeds := []string{`"2026-01-02T03:04:05Z"`, `"a@b.example"`, `"::1"`, `"https://a.example/b?c#d"`, `"/a/b~0c"`, `"(a|b)*[c-d]{2,3}"`, `["x","{a}"]`}
		all = append(all, target{"format " + format, true, seeds, maxSmall, call("format " + format)})
	}
	all = append(all, messageTargets()...)
	all = append(all, textTargets()...)
	all = append(all, accessTokenTargets()...)
	return append(all, headerTargets()...)
}

// messageTargets are about the JSON of messages.
func messageTargets() []target {
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	return []target{
		{typedArguments, true, []string{`{"text":"a b"}`, `{"tags":["a","b"],"rows":[{"id":1,"name":"x"}]}`, `{"named":{"a":"b"},"deep":{"deeper":{"row":{"id":2.0,"name":""}}}}`, `{"bytes":"YQ=="}`, `{"wide":[{},{},{}]}`, `{"any":[{"a":1},[]]}`, nested}, maxSmall,
			func(payload string) request {
				return modern(mcp.MethodToolsCall, "typed", `"name":"typed","arguments":`+payload)
			}},
		{looseArguments, true, []string{`{"any":[{"a":1},[]]}`, `{"any":[1,[]],"count":2.0}`, `{"any":["x"],"count":99999999999999999999}`, `{"any":[7e-320]}`, nested}, maxSmall,
			func(payload string) request {
				return modern(mcp.MethodToolsCall, "loose", `"name":"loose","arguments":`+payload)
			}},
		{"plain arguments", true, []string{`{"floats":[1,1],"count":2.0}`, `{"floats":[7e-320]}`, `{"ints":[1,2,300]}`, `{"names":{"a":"b"},"rows":[{},{"at":"2026-01-02T03:04:05Z"}],"count":1e0}`}, maxSmall,
			func(payload string) request {
				return modern(mcp.MethodToolsCall, "plain", `"name":"plain","arguments":`+payload)
			}},
		{"named floats", true, []string{`{"degrees":[7e-320]}`, `{"degrees":[1,7e-40]}`}, maxSmall, func(payload string) request {
			return modern(mcp.MethodToolsCall, "weather", `"name":"weather","arguments":`+payload)
		}},
		{"meta", true, []string{`{"a":1}`, `"token"`, `[[1]]`}, maxSmall, func(payload string) request {
			r := modern(mcp.MethodToolsCall, "echo", `"name":"echo","arguments":{"text":""}`)
			r.body = strings.Replace(r.body, `"_meta":{`, `"_meta":{"progressToken":"t","x":`+payload+`,`, 1)
			return r
		}},
		{"capabilities", true, []string{`{"a":[7e-320]}`, `{"a":{"b":[[]]}}`}, maxSmall, func(payload string) request {
			r := modern(mcp.MethodToolsCall, "capable", `"name":"capable"`)
			r.body = strings.Replace(r.body, `"elicitation":`, `"experimental":`+payload+`,"elicitation":`, 1)
			return r
		}},
		{"handshake", true, []string{`{"a":[7e-320]}`, `{"a":{"b":[[]]}}`}, maxSmall, func(payload string) request {
			return request{body: `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"experimental":` + payload + `},"clientInfo":{"name":"cost","version":"1"}}}`}
		}},
		{"message", true, []string{ping, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, `[` + ping + `]`}, maxSmall, legacy},
		{"batch", true, []string{"[" + ping + "," + ping + "]", `[1,2]`}, maxSmall, func(payload string) request {
			return request{header: map[string]string{"Mcp-Protocol-Version": "2025-03-26"}, body: payload} // without the session, which is of another version
		}},
		{servedBatch, true, batches(), maxSmall, func(payload string) request {
			return request{header: map[string]string{sessionHeader: batchesMark}, body: payload}
		}},
		{"answers", true, []string{`{"q":{"action":"accept","content":{"text":"a"}}}`}, maxSmall, func(payload string) request {
			return modern(mcp.MethodToolsCall, "asking", `"name":"asking","inputResponses":`+payload)
		}},
		{"prompt", true, []string{`{"a":"b"}`, `{"a":"b","c":"d"}`}, maxSmall, func(payload string) request {
			return modern(mcp.MethodPromptsGet, "p", `"name":"p","arguments":`+payload)
		}},
		{"subscriptions", true, []string{`["list:1","list:2"]`, `["anything:ab!!1","unknown:x"]`}, maxSmall, func(payload string) request {
			r := modern(mcp.MethodSubscriptionsListen, "", `"notifications":{"resourceSubscriptions":`+payload+`}`)
			r.method = http.MethodPost // a stream, which ends soon
			return r
		}},
		{"decided", true, []string{`{"a":"b"}`}, maxSmall, func(payload string) request {
			return modern(mcp.MethodCompletionComplete, "", `"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":"o"},"context":{"arguments":`+payload+`}`)
		}},
	}
}

// textTargets are about texts that the server reads: URIs, cursors, states.
func textTargets() (all []target) {
	text := func(name string, seeds []string, request func(payload string) request) {
		all = append(all, target{name, false, seeds, maxSmall, request})
	}
	for name, template := range templates {
		var seeds []string // with the end that only some of the templates have
		for _, uri := range uriSeeds {
			seeds = append(seeds, uri, uri+template[strings.LastIndexByte(template, '}')+1:]+"1")
		}
		text("template "+name, seeds, func(payload string) request {
			return modern(mcp.MethodResourcesRead, name+":"+payload, `"uri":`+quoted(name+":"+payload))
		})
	}
	for _, method := range []string{mcp.MethodToolsList, mcp.MethodResourcesList} {
		text("cursor of "+method, []string{"MTAw", "eyJhIjoxfQ", "100"}, func(payload string) request {
			return modern(method, "", `"cursor":`+quoted(payload))
		})
	}
	text("request state", []string{"v1.AAAA.BBBB", "AAAAAAAAAAAAAAAAAAAAAAAAAAAA"}, func(payload string) request {
		return modern(mcp.MethodToolsCall, "asking", `"name":"asking","requestState":`+quoted(payload))
	})
	text("completed value", []string{"o", "three"}, func(payload string) request {
		return modern(mcp.MethodCompletionComplete, "", `"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":`+quoted(payload)+`}`)
	})
	text("completed template", []string{"bounded:{a}"}, func(payload string) request {
		return modern(mcp.MethodCompletionComplete, "", `"ref":{"type":"ref/resource","uri":`+quoted(payload)+`},"argument":{"name":"a","value":"o"}`)
	})
	text("subscribed URI", []string{"list:1", "anything:ab!!1", "unknown:x"}, func(payload string) request {
		return legacy(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":` + quoted(payload) + `}}`)
	})
	text("method", []string{"tools/call", "x/y"}, func(payload string) request { return modern(payload, "", "") })
	text("tool name", []string{"echo", "Unknown"}, func(payload string) request {
		return modern(mcp.MethodToolsCall, payload, `"name":`+quoted(payload))
	})
	return all
}
