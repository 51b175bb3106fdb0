//go:build unix

package cost

import (
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// headerTargets are about headers: the values of those that the server reads, and how many there are.
func headerTargets() (all []target) {
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	for name, seed := range map[string]string{
		sessionHeader: sessionMark, "Accept": "application/json, text/event-stream;q=0.5", "Content-Type": "application/json; charset=utf-8",
		"Traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "Tracestate": "a=1,b=2",
		"Baggage": "a=1;p=2,b=%20", "Authorization": "Bearer cost", "Mcp-Name": "=?base64?ZWNobw==?=", "Mcp-Method": "tools/call",
		"Mcp-Protocol-Version": "2026-07-28", "Origin": "http://127.0.0.1:8080", "Forwarded": "for=1.2.3.4;proto=https", "X-Forwarded-For": "1.2.3.4, 5.6.7.8",
		"Accept-Encoding": "gzip, br;q=0.1", "User-Agent": "a/1 (b)",
	} {
		for _, old := range []bool{false, true} {
			era := "modern"
			if old {
				era = "legacy"
			}
			all = append(all, target{"header " + name + " " + era, false, []string{seed}, maxHeaderBytes, func(payload string) request {
				r := modern(mcp.MethodToolsCall, "echo", `"name":"echo","arguments":{"text":"x"}`)
				if old {
					r = legacy(ping)
				}
				r.header[name] = strings.Map(printable, payload)
				return r
			}})
		}
	}
	return append(all,
		target{"header Last-Event-Id", false, []string{"1_AAAA", sessionMark + "_1"}, maxHeaderBytes, func(payload string) request {
			r := legacy("")
			r.method, r.header["Last-Event-Id"] = http.MethodGet, strings.Map(printable, payload)
			return r
		}},
		target{"headers of a session", true, headerSeeds, maxHeaderBytes, func(payload string) request {
			r := legacy(ping)
			r.wire, r.lines = true, headerLines(payload)
			return r
		}},
		target{"headers of a call", true, headerSeeds, maxHeaderBytes, func(payload string) request {
			r := modern(mcp.MethodToolsCall, "echo", `"name":"echo","arguments":{"text":"x"}`)
			r.wire, r.lines = true, headerLines(payload)
			return r
		}})
}

// headerSeeds are headers: a member is one, or as many as its value has items.
var headerSeeds = []string{`{"a":"b","x-a":1}`, `{"Mcp-Name":["echo","echo"]}`, `{"Forwarded":["for=1.2.3.4","for=5.6.7.8"]}`,
	`{"X-Forwarded-For":["1.2.3.4, 5.6.7.8"]}`, `{"Mcp-Param-A":"x","Mcp-Param-B":"y"}`, `{"Tracestate":["a=1","b=2"],"Baggage":["a=1"]}`, `{"Accept":["a/b"],"Cookie":["a=b; c=d"]}`}

// headerLines returns the headers that a JSON text stands for.
func headerLines(payload string) string {
	var b strings.Builder
	dec := jsontext.NewDecoder(strings.NewReader(payload), jsontext.AllowDuplicateNames(true))
	name := "x"
	for {
		token, err := dec.ReadToken()
		if err != nil {
			return b.String()
		}
		kind, count := dec.StackIndex(dec.StackDepth())
		switch text := token.String(); {
		case strings.ContainsRune("{}[]", rune(token.Kind())):
			continue
		case kind == '{' && count%2 == 1 && dec.StackDepth() > 0:
			name = strings.Map(letter, text)
		default:
			b.WriteString(name + ": " + strings.Map(printable, text) + "\r\n")
		}
	}
}

// letter replaces what net/http does not let into the name of a header.
func letter(c rune) rune {
	if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' {
		return c
	}
	return '_'
}

// printable drops what net/http does not let into a header.
func printable(c rune) rune {
	if c < ' ' || c == 0x7f {
		return -1
	}
	return c
}
