package server_test

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server"
)

// recordsOfRequests returns the log records that are about a request, a task or a session, those whose attributes
// begin with … in the documentation, with their attributes.
func recordsOfRequests(t *testing.T) map[string][]string {
	page, err := os.ReadFile("../docs/telemetry.md")
	require.NoError(t, err)
	records := map[string][]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_.]+)` \\| [a-z, ]+ \\| ([^|]*) \\|").FindAllStringSubmatch(string(page), -1) {
		if strings.Contains(row[2], "…") {
			records[row[1]] = strings.Split(strings.TrimSpace(row[2]), ", ")
		}
	}
	require.Greater(t, len(records), 15)
	return records
}

// commonAttributes are what the documentation writes … for.
var commonAttributes = []string{
	"method", "id", "target", "task", "session", "client", "client_version", "principal", "concurrency_class", "via", "forwarded_for", "age", "trace_id", "span_id",
}

// notInScenes has the records that need other replicas or a store that fails, and the tests that look at them.
var notInScenes = map[string]string{
	"events.failed":        "session.TestFault",
	"events.fenced":        "TestStreamWhoseEventsAreLost",
	"stream.closed":        "session.TestFault",
	"stream.gap":           "session.TestFault",
	"stream.replica_lost":  "TestStreamOfADeadReplicaEnds",
	"session.adopted":      "TestLocalEndsLeaveSealedSessions",
	"task.fenced":          "TestEarlierRunIsFenced",
	"task.handed_over":     "TestTaskIsHandedOver",
	"task.not_restartable": "TestTaskThatIsTooLargeToBeginAgain",
	"task.store":           "TestTaskStoreIsDown",
}

// Operators ask first whose requests they are. Each scene of the reviewed telemetry is played with clients
// and a principal that have names, which each record about a request, a task or a session must have.
func TestRecordsNameTheClient(t *testing.T) {
	var log logRecorder
	ada := server.WithAuthenticator(auth.AuthenticatorFunc(func(context.Context, *auth.Caller) (*auth.Principal, error) {
		return named("ada"), nil
	}))
	records := recordsOfRequests(t)
	unseen, seen := map[string]bool{}, map[string]bool{}
	for name := range records {
		unseen[name] = true
	}
	for name, test := range notInScenes {
		require.True(t, unseen[name], "%s: %s", name, test)
		delete(unseen, name)
	}
	for _, a := range append(acts(), act{scenes: refusedScenes()}) {
		for _, sc := range a.scenes {
			if sc.nameless {
				continue
			}
			sc.options = append([]server.Option{ada, server.WithLogger(slog.New(&log))}, sc.options...)
			log.records = nil
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, &sc)
				s.named = true
				sc.play(s)
				s.close()
			})
			for _, r := range log.records {
				if records[r.message] == nil || r.message == "notification.dropped" && r.attrs["method"] == "" {
					continue // of the latter, those that belong to no request
				}
				delete(unseen, r.message)
				for attr := range r.attrs {
					if !slices.Contains(records[r.message], attr) && !slices.Contains(commonAttributes, attr) {
						t.Errorf("docs/telemetry.md does not list the attribute %s of %s", attr, r.message)
					}
				}
				require.NotEmpty(t, r.attrs["principal"], "%s in %s: %v", r.message, sc.title, r.attrs)
				if strings.HasPrefix(r.message, "session.") && r.attrs["client"] == "" {
					continue // of a session without a handshake
				}
				require.Subset(t, []string{"desk 4.3.0", "old 9"}, []string{r.attrs["client"] + " " + r.attrs["client_version"]}, "%s in %s: %v", r.message, sc.title, r.attrs)
				seen[r.message] = true
			}
		}
	}
	require.Empty(t, slices.Sorted(maps.Keys(unseen)), "no scene has these")
	require.True(t, seen["session.closed"] && seen["session.eof"] && seen["session.unresponsive"])
}

// refusedScenes are those about several callers, and about rules that refuse one.
func refusedScenes() []scene {
	from := func(s *stage, who string) line { return line{dialContext(s.t, as(who), s.srv), s} }
	return []scene{{
		title: "unresponsive", limits: server.Limits{PingInterval: time.Minute},
		play: func(s *stage) {
			w := s.web()
			w.start("GET", "", w.session())
			time.Sleep(time.Hour)
		},
	}, {
		title:   "panic of a rule",
		options: []server.Option{server.WithAdmission(func(context.Context, *middleware.Request) error { panic("out of cheese") })},
		play:    func(s *stage) { s.pipe().ask(echo(1)) },
	}, {
		title: "denied by a policy",
		options: []server.Option{server.WithPolicy(auth.PolicyFunc(func(context.Context, *auth.Principal, *auth.Operation) auth.Decision {
			return auth.Decision{Effect: auth.Deny, Rule: "closed"}
		}))},
		play: func(s *stage) { s.pipe().ask(echo(1)) },
	}, {
		title: "malformed answer",
		play: func(s *stage) {
			addAge(s.srv)
			p := s.old()
			p.ask(legacy(7, "tools/call", call("age", `{}`)))
			p.ask(`{"jsonrpc":"2.0","id":1,"result":` + age(`"42"`) + `}`)
			p.ask(`{"jsonrpc":"2.0","id":2,"result":` + age(`42`) + `}`)
		},
	}, {
		title: "displaced", options: []server.Option{byContext}, limits: server.Limits{MaxInFlightTotal: 1, MaxQueue: 2},
		play: func(s *stage) {
			defer close(s.hold("wait"))
			ada := from(s, "ada")
			for id := range 3 {
				ada.send(modern(id, "tools/call", call("wait", `{}`)))
			}
			from(s, "grace").send(echo(1))
			require.Contains(s.t, ada.recv(), "max_queue")
		},
	}, {
		title: "late", options: []server.Option{byContext}, limits: server.Limits{MaxInFlightTotal: 1, RequestTimeout: time.Minute},
		play: func(s *stage) {
			held := s.hold("wait")
			ada := from(s, "ada")
			for id := range 3 {
				ada.send(modern(id, "tools/call", call("wait", `{}`)))
			}
			time.Sleep(31 * time.Second)
			close(held)
			require.Contains(s.t, ada.recv()+ada.recv()+ada.recv(), "max_queue_wait")
		},
	}, {
		title: "task of another principal", options: []server.Option{byContext, server.WithTasks(server.Tasks{})},
		play: func(s *stage) {
			jobs := addJob(s.srv, "work", false, server.TaskOptions{})
			ada := &worker{line: from(s, "ada")}
			ada.id = taskID(s.t, ada.ask(withCaps(1, "tools/call", taskCaps, call("work", `{}`))))
			defer (<-jobs).finish("done")
			grace := &worker{line: from(s, "grace"), id: ada.id}
			require.Contains(s.t, grace.about("tasks/get", ""), "no such task")
		},
	}}
}
