package attack

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// A flood of new names makes no series: neither /metrics nor the pages grow with what clients say.
func TestNamesOfClientsMakeNoSeries(t *testing.T) {
	t.Parallel()
	s := attacked(t)
	undisturbed := s.others(t)
	ann := s.caller(t, attacker, "ann")
	say := func(from, to int) {
		for i := from; i < to; i++ {
			s.sayNames(t, ann, fmt.Sprintf("flood-%d", i))
		}
	}
	say(0, 20) // every kind of refusal has its series now
	before, size := s.metrics(t), len(s.page(t, "/metrics"))
	say(20, 520)
	after, sizeNow := s.metrics(t), len(s.page(t, "/metrics"))
	// Native histograms and exemplars grow a little; a series for each name would be 500 more.
	if grown := len(after) - len(before); grown > 20 {
		t.Errorf("/metrics has %d series more", grown)
	}
	if sizeNow > size+size/5 {
		t.Errorf("/metrics has grown from %d to %d bytes", size, sizeNow)
	}
	for series := range after {
		if strings.Contains(series, "flood-") {
			t.Errorf("a name of a client is a label: %s", series)
		}
	}
	undisturbed()
}

// sayNames sends a name as everything that has names.
func (s *target) sayNames(t *testing.T, c *caller, name string) {
	t.Helper()
	c.modern(t, 1, call{tool: name})
	c.modern(t, 1, call{method: name, params: `"x":1`})
	c.modern(t, 1, call{method: "prompts/get", params: fmt.Sprintf(`"name":%q`, name), name: name})
	c.modern(t, 1, call{method: "resources/read", params: fmt.Sprintf(`"uri":"test://%s"`, name), name: "test://" + name})
	c.modern(t, 1, about("tasks/get", name, ""))
	for _, replace := range [][2]string{{`"name":"attack"`, fmt.Sprintf(`"name":%q`, name)}, {`"version":"0"`, fmt.Sprintf(`"version":%q`, name)}, {modernVersion, name}} {
		c.must(t, http.MethodPost, call{tool: "echo"}.header(), strings.Replace(call{tool: "echo", arguments: `{"text":"x"}`}.frame(json.RawMessage(`"`+name+`"`), true), replace[0], replace[1], 1))
	}
	h := plainHeader()
	h.Set("User-Agent", name)
	h.Set("Mcp-Session-Id", name)
	h.Set("Origin", "http://"+name)
	c.must(t, http.MethodPost, h, initializeFrame)
	h.Del("Origin")
	c.must(t, http.MethodPost, h, `{"jsonrpc":"2.0","method":"notifications/`+name+`"}`)
	c.must(t, "M"+strings.ToUpper(strings.ReplaceAll(name, "-", "")), h, "")
	other := s.caller(t, attacker, name) // a principal of its own
	other.modern(t, 1, call{tool: "echo", arguments: `{"text":"x"}`})
	r := other.must(t, http.MethodPost, plainHeader(), strings.Replace(initializeFrame, `"name":"attack"`, fmt.Sprintf(`"name":%q`, name), 1))
	other.session = r.header.Get("Mcp-Session-Id")
	other.must(t, http.MethodDelete, other.sessionHeader(), "")
	other.http.CloseIdleConnections()
}
