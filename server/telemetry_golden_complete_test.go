package server_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// outOfReach are values of the vocabularies, and gauges, that no scene can bring about, and why not.
var outOfReach = map[string]string{
	"cause session_idle":    "a session with a request is not idle: only the session has this end",
	"cause session_evicted": "only idle sessions are evicted: only the session has this end",
	"code -32700":           "a frame that is no JSON is no request, and has no span",

	"end of a subscription error": "nothing of ours fails once a subscription stands",

	"end of a stream replaced": "it takes another replica: see TestLatestReaderOfAStreamGetsIt",
	"end of a stream error":    "it takes another replica: see TestReaderOfAStreamWithAGap",

	"lost answer stream_ended": "it takes a batch of the oldest revision: see TestAnswersOfStreamsThatFailExpire",

	"dropped notification era_forbidden": "nobody sends what the revision does not have",
	"dropped notification unconfirmed":   "it takes another replica: see TestOwnStreamOfADeadReplica",

	"gauge vitrine_build_info":             "its labels differ from build to build",
	"gauge vitrine_policy_stale_files":     "only package service reads rules from a file",
	"gauge vitrine_state_keys_stale_files": "only package service reads keys from a file",

	"gauge vitrine_credentials_stale_files":                  "only package service reads the files of a certificate",
	"gauge vitrine_credentials_stale_files tls":              "only package service reads the files of a certificate",
	"gauge vitrine_credentials_stale_files admin_token":      "only package service has an admin listener",
	"gauge vitrine_credentials_stale_files tokens":           "only package service asks an authenticator about its file",
	"gauge vitrine_tls_certificate_expiry_timestamp_seconds": "only package service reads the files of a certificate",

	"gauge vitrine_telemetry_spans_queued":        "the exporter of spans of the scenes has no queue",
	"gauge vitrine_telemetry_log_records_queued":  "scenes have no exporter of log records",
	"gauge vitrine_sessions_active stdio":         "a test has no standard input to serve",
	"gauge vitrine_memory_held_bytes connections": "only package service counts connections",
	"gauge vitrine_memory_held_bytes validation":  "it is held while a schema is checked, which waits for nothing",
}

// TestTelemetryGoldenIsComplete: each value of each vocabulary occurs in a section, on a
// span and in a counter where it has both, and each gauge is measured when it is not 0, unless
// that is out of reach.
func TestTelemetryGoldenIsComplete(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "telemetry", "*.txt"))
	require.NoError(t, err)
	require.Len(t, files, len(acts()), "a file that no act writes")
	all := "\n"
	for _, name := range files {
		raw, err := os.ReadFile(name)
		require.NoError(t, err)
		all += string(raw)
	}
	looked := map[string]bool{}
	occurs := func(what string, patterns ...string) {
		t.Helper()
		looked[what] = true
		missing := ""
		for _, p := range patterns {
			if !regexp.MustCompile(`(?m)\n` + p).MatchString(all) { // with a literal beginning it is found soon
				missing += "\n\t" + p
			}
		}
		if why, known := outOfReach[what]; known {
			require.NotEmpty(t, missing, "%s is in reach, although outOfReach says: %s", what, why)
			return
		}
		require.Empty(t, missing, "no section has %s", what)
	}
	attribute := func(key, value string) string { return fmt.Sprintf(`  %s = "%s"$`, regexp.QuoteMeta(key), value) }
	counter := func(name, label, value string) string {
		return fmt.Sprintf(`%s\{.*\b%s="%s".*\} \+`, name, label, value)
	}

	for _, c := range mcp.Causes() {
		if c == mcp.CauseReplicaLost { // of tasks alone: see TestTaskOfALostReplica
			continue
		}
		occurs("cause "+string(c), attribute("vitrine.cancel.cause", string(c)),
			counter("vitrine_requests_cancelled_total", "cause", string(c)),
			counter("vitrine_cancel_unwind_seconds", "cause", string(c)))
	}
	for _, c := range []mcp.Cause{
		mcp.CauseTransportClose, mcp.CauseTransportError, mcp.CauseSessionDelete, mcp.CauseSessionIdle,
		mcp.CauseSessionEvicted, mcp.CauseServerShutdown, mcp.CauseOperator, // what ends a request alone does not end a session
	} {
		occurs("session "+string(c), counter("vitrine_sessions_closed_total", "cause", string(c)))
	}
	for _, r := range mcp.ResponseDropReasons() {
		occurs("dropped response "+string(r), attribute("vitrine.drop.reason", string(r)),
			`  event after \S+: vitrine.response.dropped\n    vitrine.drop.reason = "`+string(r)+`"$`,
			counter("vitrine_responses_dropped_total", "reason", string(r)))
	}
	for _, r := range mcp.NotificationDropReasons() {
		occurs("dropped notification "+string(r), counter("vitrine_notifications_dropped_total", "reason", string(r)))
	}
	for _, r := range mcp.ExpireReasons() {
		occurs("lost answer "+string(r), counter("vitrine_responses_expired_total", "reason", string(r)))
	}
	for _, label := range labelsOf(t, telemetry.MetricListChanges) {
		for _, value := range label.Values {
			occurs("change of a list "+value, counter(telemetry.MetricListChanges, label.Name, value))
		}
	}
	for _, label := range labelsOf(t, telemetry.MetricStreamDuration) {
		if label.Name == "kind" {
			for _, kind := range label.Values {
				occurs("stream "+kind, counter(telemetry.MetricStreamDuration, "kind", kind))
			}
		}
	}
	for _, r := range mcp.RejectReasons() {
		patterns := []string{counter("vitrine_requests_rejected_total", "reason", string(r))}
		if r != mcp.RejectParseError && r != mcp.RejectTooLarge { // frames without a request have no span
			patterns = append(patterns, attribute("vitrine.reject.reason", string(r)))
		}
		occurs("rejection "+string(r), patterns...)
	}
	for _, c := range errorCodes(t) {
		code := strconv.Itoa(c)
		occurs("code "+code, attribute("rpc.response.status_code", code),
			counter("mcp_server_operation_duration_seconds", "rpc_response_status_code", code))
	}
	for _, end := range mcp.SubscriptionEnds() {
		occurs("end of a subscription "+string(end), counter("vitrine_subscription_duration_seconds", "end", string(end)))
	}
	for _, end := range session.StreamEnds() {
		occurs("end of a stream "+end, counter("vitrine_stream_duration_seconds", "reason", end))
	}
	for _, s := range mcp.TaskStatuses() {
		if s.Terminal() {
			occurs("end of a task "+string(s), attribute("vitrine.task.status", string(s)),
				counter("vitrine_task_duration_seconds", "status", string(s)))
		}
	}
	for _, c := range []mcp.Cause{mcp.CauseClientCancel, mcp.CauseDeadline, mcp.CauseServerShutdown} {
		occurs("cancelled task "+string(c), counter("vitrine_tasks_cancelled_total", "cause", string(c)))
	}
	occurs("proxy", attribute("vitrine.http.via", "1.1 gateway"), attribute("vitrine.http.forwarded_for", "198.51.100.3"))
	occurs("phases", `  vitrine\.phase\.handler = 4`, `  vitrine\.phase\.middleware\.\S+ = 3`)
	occurs("class that is full", counter("vitrine_class_refused_total", "class", "one"))
	for _, method := range mcp.Methods() {
		occurs("method "+method, `span \w+: `+regexp.QuoteMeta(method)+`( \w+)?$`)
	}
	for _, m := range telemetry.Catalogue() {
		if m.Kind != telemetry.Gauge {
			continue
		}
		occurs("gauge "+m.Name, regexp.QuoteMeta(m.Name)+`(\{.*\})? = `) // only what is not 0 is written
		if _, isSize := usedOf[m.Name]; isSize {
			continue // it is written for each label for which something is used
		}
		for _, label := range m.Labels {
			for _, value := range label.Values {
				occurs("gauge "+m.Name+" "+value, fmt.Sprintf(`%s\{.*\b%s="%s".*\} = `, m.Name, label.Name, value))
			}
		}
	}
	for what := range outOfReach {
		require.True(t, looked[what], "nobody looks for %s, which is in outOfReach", what)
	}
	for _, hostile := range []string{"hostile", "<script>", "missing"} {
		require.NotRegexp(t, `(?m)^(span|\S+\{).*`+hostile, all, "a name from the wire")
	}
}

// labelsOf returns the labels of a metric.
func labelsOf(t *testing.T, name string) []telemetry.Label {
	all := telemetry.Catalogue()
	i := slices.IndexFunc(all, func(m telemetry.Metric) bool { return m.Name == name })
	require.GreaterOrEqual(t, i, 0, name)
	return all[i].Labels
}

// errorCodes returns the constants of package mcp: nothing else lists them.
func errorCodes(t *testing.T) (codes []int) {
	source, err := os.ReadFile(filepath.Join("..", "mcp", "error.go"))
	require.NoError(t, err)
	for _, m := range regexp.MustCompile(`(?m)^\tCode\w+\s+Code = (-\d+)`).FindAllStringSubmatch(string(source), -1) {
		code, err := strconv.Atoi(m[1])
		require.NoError(t, err)
		codes = append(codes, code)
	}
	require.GreaterOrEqual(t, len(codes), 10)
	return codes
}
