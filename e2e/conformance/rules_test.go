package conformance

import (
	"path"
	"strings"
)

// A foreign section of the suite's list has no scenarios for servers.
type foreign struct{ section, why string }

// foreigners are the sections that are left out.
var foreigners = []foreign{
	{"Client scenarios", "they test a client, and Vitrine makes servers"},
	{"Authorization server scenarios", "they test an authorization server, which an MCP server is not"},
}

// An untested check reports SKIPPED or INFO instead of a result, for a reason that Vitrine cannot
// change. Any other check that reports so is a fault: the scenario would only seem to pass.
type untested struct {
	scenario, check string // patterns, as for path.Match
	says            string // part of the suite's text about it
	why             string
}

var excused = []untested{
	{
		"server-sse-multiple-streams", "server-sse-streams-functional", "Server returned JSON for all requests",
		"tools/list is answered with one JSON body, as the transport allows, so there is no stream to look at",
	},
	{
		"tasks-status-notifications", "tasks-status-notifications", "The harness needs a rewrite",
		"the suite has only the name of this scenario yet: it sends nothing",
	},
	{
		"sep-2640-skills-*", "sep-2640-*", "Server did not declare the io.modelcontextprotocol/skills extension",
		"for servers with the extension io.modelcontextprotocol/skills, which Vitrine has not",
	},
}

// excuse returns the index of the rule about a check, or -1.
func excuse(scenario, check, text string) int {
	for i, u := range excused {
		if match(u.scenario, scenario) && match(u.check, check) && strings.Contains(text, u.says) {
			return i
		}
	}
	return -1
}

func match(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

// journal are the checks that report INFO because they only record events.
var journal = map[string]bool{
	"outgoing-request": true, "incoming-response": true, "incoming-sse-event": true, "stream-closed": true,
}
