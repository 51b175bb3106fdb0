package attack

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"unicode"
)

// hostile are texts that do harm where they are printed as they are: to a log, a terminal, a page.
var hostile = []string{
	"a\nlevel=ERROR msg=forged", "a\r\n{\"msg\":\"forged\"}", "\x1b[2J\x1b]0;owned\x07", "\u009b31m", "\u202e\u2066hidden\u2069", "a\u200b\u2060\ufeffb",
	"\u2028\u2029\u0085", `<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `</textarea><svg/onload=alert(1)>`,
	`javascript:alert(1)`, "{{.Name}}${jndi:ldap://x}", "%s%n%x%d", "=cmd|'/C calc'!A0", strings.Repeat("é", 5000),
}

// Texts of a client come into logs and pages, and never as anything but text.
func TestTextsOfClientsAreTextEverywhere(t *testing.T) {
	for _, format := range []string{"json", "text"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			s := attacked(t, "--log-format", format, "--log-level", "debug")
			undisturbed := s.others(t)
			for _, text := range hostile {
				s.sayEverywhere(t, text)
			}
			for _, path := range []string{"/", "/debug/requests", "/debug/requests?format=text", "/debug/traces", "/debug/flight", "/debug/pprof/", "/nowhere"} {
				for _, accept := range []string{"text/html", "application/json", "text/plain"} {
					s.checkPage(t, path, accept)
				}
			}
			s.checkPage(t, "/metrics", "text/plain")
			if text := s.page(t, "/metrics"); strings.ContainsAny(text, "\x1b\r\u202e\u200b") || strings.Contains(text, "<script>") {
				t.Error("/metrics has a text of a client as it was sent")
			}
			undisturbed()
			s.checkLines(t, format)
		})
	}
}

// sayEverywhere sends a text in each place that a log, a page or an answer may repeat.
func (s *target) sayEverywhere(t *testing.T, text string) {
	t.Helper()
	quoted, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	c := s.caller(t, attacker, "")
	h := plainHeader()
	h.Set("User-Agent", visible(text))
	r := c.must(t, http.MethodPost, h, strings.Replace(initializeFrame, `"clientInfo":{"name":"attack","version":"0"}`,
		fmt.Sprintf(`"clientInfo":{"name":%s,"version":%s,"title":%s}`, quoted, quoted, quoted), 1))
	if c.session = r.header.Get("Mcp-Session-Id"); c.session != "" {
		c.notify(t, `"notifications/initialized","params":{}`)
		c.legacy(t, json.RawMessage(quoted), call{tool: "fail", arguments: fmt.Sprintf(`{"text":%s}`, quoted)})
		c.must(t, http.MethodPost, c.sessionHeader(), fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s,"reason":%s}}`, quoted, quoted))
		c.must(t, http.MethodPost, c.sessionHeader(), fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%s,"params":{}}`, quoted, quoted))
		c.must(t, http.MethodPost, c.sessionHeader(), fmt.Sprintf(`{"jsonrpc":"2.0","method":%s}`, quoted))
		defer c.must(t, http.MethodDelete, c.sessionHeader(), "")
	}
	for _, frame := range []string{
		fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%s,"arguments":{},%s}}`, quoted, quoted, fmt.Sprintf(modernMeta, "")),
		strings.Replace(call{tool: "echo", arguments: `{"text":1}`}.frame(1, true), `"name":"attack"`, `"name":`+string(quoted), 1),
		strings.Replace(call{tool: "fail", arguments: fmt.Sprintf(`{"text":%s}`, quoted)}.frame(2, true), modernVersion, "2099-01-01", 1),
	} {
		h := call{tool: "echo"}.header()
		h.Set("Mcp-Name", visible(text))
		c.must(t, http.MethodPost, h, frame)
	}
	for _, header := range []string{"Host", "Origin", "Mcp-Session-Id", "MCP-Protocol-Version", "Last-Event-Id", "Content-Type", "traceparent", "tracestate", "baggage"} {
		for _, r := range s.exchange(t, s.rawEcho(1).set(header, headerText(text)).String()) {
			for name, values := range r.header {
				if name != "Date" && name != "Content-Length" && len(text) < 100 && strings.Contains(strings.Join(values, ""), headerText(text)) {
					t.Errorf("the header %s repeats %q", name, text)
				}
			}
		}
	}
}

// headerText is a text without line ends, which would end the header.
func headerText(text string) string { return strings.NewReplacer("\n", " ", "\r", " ").Replace(text) }

// visible is a text without what the client of net/http refuses to send in a header.
func visible(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text)
}

// checkPage checks that a page has no hostile text as it was sent, and that no browser takes it
// for something else.
func (s *target) checkPage(t *testing.T, path, accept string) {
	t.Helper()
	resp, body, err := s.get(path, "Accept", accept)
	if err != nil {
		t.Fatal(err)
	}
	isPage := strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html")
	if isPage && (strings.Contains(body, "<script>alert") || strings.Contains(body, "<img src=x") || strings.Contains(body, "<svg/onload")) {
		t.Errorf("%s has the HTML of a client", path)
	}
	if resp.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%s (%s) may be taken for another type: no nosniff", path, accept)
	}
	checkPrintable(t, path+" ("+accept+")", body)
}

// checkPrintable checks that a text has no character that a terminal or a reader takes for
// something else: controls, and marks that change the direction of text or have no width.
func checkPrintable(t *testing.T, where, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		for _, r := range strings.TrimSuffix(line, "\n") {
			if r != '\t' && unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029' {
				t.Errorf("%s has %U: %.200q", where, r, line)
				return
			}
		}
	}
}

// checkLines checks that each line of the log is one record, and that none was forged.
func (s *target) checkLines(t *testing.T, format string) {
	t.Helper()
	for _, line := range s.log.all() {
		if len(line) > 32<<10 {
			t.Errorf("a line of the log has %d bytes", len(line))
		}
		checkPrintable(t, "the log", line)
		var record struct{ Msg string }
		switch format {
		case "json":
			if json.Unmarshal([]byte(line), &record) != nil || record.Msg == "forged" {
				t.Errorf("no record of the server: %.200s", line)
			}
		default:
			if strings.HasPrefix(line, "level=") || strings.HasPrefix(line, `{"msg":"forged"`) {
				t.Errorf("a forged record: %.200s", line)
			}
		}
	}
}
