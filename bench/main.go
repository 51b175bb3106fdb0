// Command bench compares Vitrine with other SDKs, with a server of net/http and encoding/json
// alone, and with a server that sends fixed bytes. Every server runs in a process of its own,
// and all of them take turns in one run.
//
//	go run .                                   everything, about fifteen minutes
//	go run . -only /call/modern/small/16       one row
//	go run . -only ^promises                   the default, and servers by hand that keep the same promises
//	go run . -only ^scale/                     many streams, calls and sessions at once, replicas, many tools, long texts
//	go run . -only ^protected                  access tokens, scopes, rules and the audit
//	go run . -only ^everything                 a service that has all of that, Redis and exported traces
//	go run . -only ^sessions                   servers with real tools, and a session for each call
//	go run . -only ^release                    the size of the program, its start, and its idle memory
//	go run . -write ../docs/performance.md     everything, and the report
//
// The CPU time comes from the operating system, allocations come from the runtime of each
// process. A wrong answer fails the run.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"time"

	"github.com/vitrine-mcp/vitrine/bench/servers"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run() error {
	rounds := flag.Int("rounds", 5, "how often every server has its turn")
	slice := flag.Duration("slice", 250*time.Millisecond, "how long a turn takes")
	only := flag.String("only", "", "measure the scenarios whose name matches this `regexp`")
	full := fullScale(nil)
	flag.IntVar(&full.streams, "streams", full.streams, "how many streams scale/streams and scale/sessions open; each takes a file descriptor here and one in the server")
	flag.IntVar(&full.calls, "calls", full.calls, "how many calls scale/calls lets wait")
	flag.IntVar(&full.sessions, "sessions", full.sessions, "how many sessions scale/sessions opens")
	against := flag.String("servers", "", "measure the servers whose name matches this `regexp`, and the floor")
	users := flag.Int("users", 50, "how many users the servers of sessions/... have at once")
	write := flag.String("write", "", "also write the report to this `file`, and a picture beside it")
	profiles := flag.String("profiles", "", "also write CPU and allocation profiles into this `folder`, after the rounds")
	names := flag.Bool("list", false, "list the scenarios and the servers, and measure nothing")
	serving := flag.String("serve", "", "be a `server` (what the command starts itself with)")
	tools := flag.Int("tools", fewTools, "with -serve: how many tools it has")
	stdio := flag.Bool("stdio", false, "with -serve: on standard input and output")
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("unknown argument %q", flag.Arg(0))
	}
	if *serving != "" {
		return serve(*serving, *tools, *stdio)
	}
	scenarioNames, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	serverNames, err := regexp.Compile(*against)
	if err != nil {
		return err
	}
	full.only = scenarioNames
	p := plan{scenarios: matching(scenarioNames), scale: full, kinds: compared(serverNames), rounds: *rounds, slice: *slice, profiles: *profiles, parts: *write != "", seconds: 10, progress: os.Stderr,
		extras: extras(scenarioNames), starts: 10, users: *users, pause: 3 * time.Second, scrape: time.Second}
	if *names {
		p.list()
		return nil
	}
	if n := len(p.scenarios) + len(p.extras) + len(p.scale.names()); n == 0 || p.rounds < 1 || p.slice <= 0 {
		return fmt.Errorf("nothing to measure: %d scenarios match, %d rounds of %s", n, p.rounds, p.slice)
	}
	if min(full.streams, full.calls, full.sessions, *users) < 1 {
		return errors.New("a scale, and a number of users, is at least 1")
	}
	r := report{plan: p, machine: thisMachine()}
	if r.outcome, err = p.run(); err != nil {
		return err
	}
	fmt.Print(r.markdown())
	if *write != "" {
		return r.write(*write)
	}
	return nil
}

// list prints the names of the scenarios and of the servers.
func (p plan) list() {
	for _, s := range p.scenarios {
		fmt.Println(s.name())
	}
	for _, name := range slices.Concat(p.extras, p.scale.names()) {
		fmt.Println(name)
	}
	for _, k := range p.kinds {
		fmt.Println(k.Name)
	}
}

// compared returns the kinds that match, and the floor, because the others are compared with it.
func compared(names *regexp.Regexp) []servers.Kind {
	return slices.DeleteFunc(servers.All(), func(k servers.Kind) bool {
		return k.Name != servers.Floor && !names.MatchString(k.Name)
	})
}
