package attack

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"
)

// Nobody acts as an operator without the credential, from a web page or by mistake: each attempt is
// refused, and the calls of others go on.
func TestActionsAreForOperators(t *testing.T) {
	t.Parallel()
	file := t.TempDir() + "/token"
	const token = "a-credential-of-32-letters-or-so"
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := attacked(t, "--admin-token-file", file, "--admin-actions")
	s.credential = token
	undisturbed := s.others(t)
	var rep struct{ Requests, Sessions []struct{ Key string } }
	if err := json.Unmarshal([]byte(s.page(t, "/debug/requests", "Accept", "application/json")), &rep); err != nil || len(rep.Requests) == 0 || len(rep.Sessions) == 0 {
		t.Fatalf("nothing is in flight: %v", err)
	}
	send := func(method, action, body string, header map[string]string) int {
		req, err := http.NewRequest(method, s.admin+"/debug/actions/"+action, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Content-Type", "application/json")
		for name, value := range header {
			req.Header.Del(name)
			if value != "" {
				req.Header.Set(name, value)
			}
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0 // the body was too large to be sent as a whole
		}
		defer resp.Body.Close()
		return resp.StatusCode
	}
	for action, body := range map[string]string{
		"end_request": `{"key":"` + rep.Requests[0].Key + `"}`, "close_stream": `{"key":"` + rep.Requests[0].Key + `"}`,
		"end_session": `{"key":"` + rep.Sessions[0].Key + `"}`, "drain": "{}",
		"log_level": `{"level":"debug"}`, "profile": `{"profile":"mutex","seconds":1}`,
	} {
		for name, c := range map[string]struct {
			method, body string
			header       map[string]string
			want         int
		}{
			"without a token":      {"POST", body, map[string]string{"Authorization": ""}, 401},
			"with a wrong token":   {"POST", body, map[string]string{"Authorization": "Bearer " + token[1:]}, 401},
			"from a page":          {"POST", body, map[string]string{"Origin": "http://127.0.0.1:1"}, 403},
			"from its own page":    {"POST", body, map[string]string{"Origin": s.admin}, 403},
			"from a sandbox":       {"POST", body, map[string]string{"Origin": "null"}, 403},
			"from another site":    {"POST", body, map[string]string{"Sec-Fetch-Site": "same-site"}, 403},
			"by a rebound name":    {"POST", body, map[string]string{"Origin": "http://evil.example"}, 403},
			"with GET":             {"GET", "", nil, 405},
			"as a form":            {"POST", body, map[string]string{"Content-Type": "application/x-www-form-urlencoded"}, 415},
			"as a part of a form":  {"POST", body, map[string]string{"Content-Type": "multipart/form-data; boundary=x"}, 415},
			"as text":              {"POST", body, map[string]string{"Content-Type": "text/plain"}, 415},
			"with half a body":     {"POST", body[:len(body)-1], nil, 400},
			"with more than one":   {"POST", body + body, nil, 400},
			"with another field":   {"POST", `{"sudo":true}`, nil, 400},
			"with a body of 8 MiB": {"POST", `{"key":"` + strings.Repeat("r", 8<<20) + `"}`, nil, 413},
		} {
			got := send(c.method, action, c.body, c.header)
			if got != c.want && !(c.want == 413 && got == 0) {
				t.Errorf("%s %s: %d, want %d", action, name, got, c.want)
			}
		}
	}
	for _, key := range []string{"r0", "r99999999", "s99999999", "r-1", "", "../drain"} {
		if got := send("POST", "end_request", `{"key":`+quote(key)+`}`, nil); got != 404 {
			t.Errorf("the key %q: %d", key, got)
		}
	}
	if s.page(t, "/readyz") != "ready\n" {
		t.Error("it drains")
	}
	undisturbed()
}
