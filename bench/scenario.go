package main

import (
	"fmt"
	"regexp"

	"github.com/vitrine-mcp/vitrine/bench/servers"
)

// A scenario is one kind of load that all servers get.
type scenario struct {
	group   string // its heading in the report
	kind    kind
	stdio   bool
	memory  bool // client and server are in one process
	legacy  bool
	size    size // of the message, for calls
	tools   int  // of the server
	callers int  // each waits for its answer before its next request
	// token is true if each request has an access token.
	token bool
	// half is true if the latencies at half of the load are measured as well.
	half bool
	// forever is true if no session is ended by its client.
	forever bool
	// backends are those of the servers that need some.
	backends backendAddresses
}

// A kind is the kind of a request.
type kind string

const (
	call     kind = "call"     // tools/call of a tool that answers with its argument
	list     kind = "list"     // tools/list
	progress kind = "progress" // tools/call of a tool that reports progress ten times
	session  kind = "session"  // a legacy session with one tools/call or tools/list
)

// A size is the size of a message in bytes. 0 means as short as possible.
type size struct {
	name  string
	bytes int
	plain bool // letters only, which JSON has unchanged
}

var (
	small  = size{name: "small", bytes: 300}
	medium = size{name: "medium", bytes: 4 << 10}
	large  = size{name: "large", bytes: 256 << 10}
)

// fewTools is the number of tools of a server whose list is not requested.
const fewTools = 10

func (s scenario) era() string {
	if s.legacy {
		return "legacy"
	}
	return "modern"
}

// name returns the name for -only.
func (s scenario) name() string {
	transport, what := "http", s.size.name
	switch {
	case s.stdio:
		transport = "stdio"
	case s.memory:
		transport = "memory"
	}
	switch s.kind {
	case list:
		what = fmt.Sprint(s.tools)
	case progress:
		what = fmt.Sprint(servers.StepCount)
	case session:
		if s.forever {
			return extraSessionsForever
		}
		return extraSessions
	}
	return fmt.Sprintf("%s/%s/%s/%s/%d", transport, s.kind, s.era(), what, s.callers)
}

// scenarios returns all scenarios, in the order of the report.
func scenarios() (all []scenario) {
	callers := []int{1, 16, 64}
	for _, legacy := range []bool{false, true} {
		for _, size := range []size{small, medium, large} {
			for _, n := range callers {
				s := scenario{kind: call, legacy: legacy, size: size, tools: fewTools, callers: n}
				s.half = size == small && n == callers[len(callers)-1]
				s.group = fmt.Sprintf("tools/call over HTTP, %s", s.era())
				all = append(all, s)
			}
		}
	}
	for _, tools := range []int{10, 500} {
		all = append(all, scenario{group: "tools/list over HTTP", kind: list, tools: tools, callers: 16})
	}
	all = append(all, scenario{group: "Ten progress events and an answer over HTTP", kind: progress, tools: fewTools, callers: 16})
	for _, n := range callers {
		all = append(all, scenario{group: "tools/call over stdio", kind: call, stdio: true, size: small, tools: fewTools, callers: n})
	}
	for _, n := range []int{1, 16} {
		all = append(all, scenario{group: "tools/call in memory", kind: call, memory: true, size: small, tools: fewTools, callers: n})
	}
	return all
}

// matching returns the scenarios whose name matches.
func matching(only *regexp.Regexp) (some []scenario) {
	for _, s := range scenarios() {
		if only.MatchString(s.name()) {
			some = append(some, s)
		}
	}
	return some
}
