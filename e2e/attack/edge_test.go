package attack

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

// A Host that no page can have reached by the address of this machine is refused, however it is
// written, and so is an Origin that is not this machine.
func TestHostsAndOriginsOfOthersAreRefused(t *testing.T) {
	t.Parallel()
	s := attacked(t)
	port := s.host[strings.LastIndexByte(s.host, ':'):]
	undisturbed := s.others(t)
	before := s.admitted(t)
	for _, host := range []string{
		"evil.example", "evil.example" + port, "localhost.evil.example", "127.0.0.1.evil.example", "evil.example.",
		"localhost.", "LOCALHOST.evil.example", "127.1", "0x7f.0.0.1", "0177.0.0.1", "2130706433", "127.0.0.01",
		"0.0.0.0", "[::]", "[::ffff:10.0.0.1]", "[fe80::1]", "10.0.0.1", "localhost:80:80", "localhost@evil.example",
		"user@localhost", "localhost/x", "localhost#x", "localhost,evil.example", "local host", "",
	} {
		for _, r := range s.exchange(t, s.rawEcho(1).set("Host", host).String()) {
			refused(t, "Host "+host, r, http.StatusForbidden)
		}
	}
	for _, origin := range []string{
		"null", "evil", "http://evil.example", "https://evil.example" + port, "http://localhost.evil.example",
		"http://localhost@evil.example", "http://evil.example#localhost", "file://", "data:", "chrome-extension://abc",
		"http://[::ffff:10.0.0.1]", "http://localhost.", "http://127.1", "http://localhost, http://evil.example",
		"http://127.0.0.1.evil.example", "//localhost.evil.example", "http:evil.example", "http://%6cocalhost.evil.example",
	} {
		for _, r := range s.exchange(t, s.rawEcho(1).with("Origin: "+origin).String()) {
			refused(t, "Origin "+origin, r, http.StatusForbidden)
		}
	}
	for name, raw := range map[string]rawRequest{
		"two hosts":             s.rawEcho(1).with("Host: localhost"),
		"no host":               s.rawEcho(1).without("Host"),
		"two origins":           s.rawEcho(1).with("Origin: http://localhost").with("Origin: http://evil.example"),
		"the other two":         s.rawEcho(1).with("Origin: http://evil.example").with("Origin: http://localhost"),
		"an absolute address":   {"POST http://evil.example/mcp HTTP/1.1", s.rawEcho(1).header, s.rawEcho(1).body},
		"its user is this host": {"POST http://localhost@evil.example/mcp HTTP/1.1", s.rawEcho(1).header, s.rawEcho(1).body},
	} {
		for _, r := range s.exchange(t, raw.String()) {
			refused(t, name, r, http.StatusForbidden)
		}
	}
	if after := s.admitted(t); after != before {
		t.Errorf("%d refused requests were admitted", after-before)
	}
	for _, raw := range []rawRequest{
		s.rawEcho(1), s.rawEcho(1).set("Host", "LocalHost"+port), s.rawEcho(1).set("Host", "[::1]"), s.rawEcho(1).set("Host", "127.0.0.1"),
		s.rawEcho(1).with("Origin: http://localhost:3000"), s.rawEcho(1).with("Origin: HTTP://[::1]:3000"),
	} {
		if all := s.exchange(t, raw.String()); len(all) != 1 || all[0].text() != "hello" {
			t.Errorf("this machine itself is refused: %s: %+v", raw, all)
		}
	}
	undisturbed()
}

// refused checks that nothing was served. Bytes that are not HTTP get 400 from net/http, and a
// path that is not the endpoint's is not found.
func refused(t *testing.T, what string, r response, statuses ...int) {
	t.Helper()
	statuses = append(statuses, http.StatusBadRequest, http.StatusNotFound)
	if r.Result != nil || !slices.Contains(statuses, r.status) {
		t.Errorf("%s: %d %.300s; want one of %d", what, r.status, r.body, statuses)
	}
}

// A preflight of a foreign page gets no permission, and what a page can send without one is refused.
func TestForeignPagesGetNoPermission(t *testing.T) {
	t.Parallel()
	s := attacked(t)
	undisturbed := s.others(t)
	before := s.admitted(t)
	preflight := rawRequest{line: "OPTIONS /mcp HTTP/1.1", header: []string{"Host: " + s.host, "Origin: http://evil.example",
		"Access-Control-Request-Method: POST", "Access-Control-Request-Headers: content-type,mcp-method"}}
	for _, r := range s.exchange(t, preflight.String()) {
		refused(t, "the preflight", r, http.StatusForbidden)
		if r.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("the preflight is allowed: %v", r.header)
		}
	}
	for _, contentType := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "",
		"text/plain; application/json", "application/jsonp", "application/json-patch+json"} {
		raw := s.rawEcho(1).set("Content-Type", contentType)
		if contentType == "" {
			raw = s.rawEcho(1).without("Content-Type")
		}
		for _, r := range s.exchange(t, raw.String()) {
			refused(t, "Content-Type "+contentType, r, http.StatusUnsupportedMediaType)
		}
	}
	for _, site := range [][2]string{{"Origin", "http://evil.example"}, {"Origin", "null"}, {"Host", "evil.example"}, {"Host", "localhost.evil.example"}} {
		for _, path := range []string{"/metrics", "/debug/requests", "/debug/pprof/profile?seconds=1", "/debug/flight"} {
			resp, body, err := s.get(path, site[0], site[1])
			if err != nil || resp.StatusCode != http.StatusForbidden {
				t.Errorf("a page with the %s %s reads %s: %v %.100s", site[0], site[1], path, err, body)
			}
		}
	}
	if after := s.admitted(t); after != before {
		t.Errorf("%d refused requests were admitted", after-before)
	}
	undisturbed()
}

// With --refuse-local-origins the page of another local port gets no permission either.
func TestPagesOfOtherLocalPortsCanBeRefused(t *testing.T) {
	t.Parallel()
	s := attacked(t, "--refuse-local-origins", "--allowed-origins", "http://localhost:6274")
	undisturbed := s.others(t)
	port := s.host[strings.LastIndexByte(s.host, ':'):]
	for _, origin := range []string{"http://localhost:3000", "http://127.0.0.1:1", "http://[::1]:3000", "http://localhost", "http://127.0.0.2" + port} {
		for _, r := range s.exchange(t, s.rawEcho(1).with("Origin: "+origin).String()) {
			refused(t, "Origin "+origin, r, http.StatusForbidden)
		}
	}
	for _, raw := range []rawRequest{s.rawEcho(1), s.rawEcho(1).with("Origin: http://localhost:6274")} {
		if all := s.exchange(t, raw.String()); len(all) != 1 || all[0].text() != "hello" {
			t.Errorf("refused: %s: %+v", raw, all)
		}
	}
	undisturbed()
}
