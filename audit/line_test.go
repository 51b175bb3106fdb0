package audit

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// whole is a record with all fields.
func whole() Record {
	return Record{
		Time: time.Date(2026, 11, 23, 1, 2, 3, 4000, time.UTC),
		Principal: &auth.Principal{
			Issuer: "https://login.example.com", Subject: "ann", Tenant: "acme", Client: "cli-1", Actors: []string{"agent", "proxy"},
		},
		ClientName: "inspector", ClientVersion: "1.2", Address: "192.0.2.1:99", Transport: "http", Session: "abcd1234",
		RequestID: "7", Operation: "tools/call", Target: "delete", Task: "t1", Decision: DecisionDeny, Rule: "no_deletes",
		Reason: "because", DryRun: true, Stage: StagePolicy, Outcome: OutcomeRefused, ErrorCode: mcp.CodeInvalidParams,
		Cause: mcp.CauseDeadline, Dropped: mcp.DropBrokenPeer, Duration: 1500 * time.Microsecond, TraceID: "0af7651916cd43dd8448eb211c80319c",
		Count: 3, digest: [digestSize]byte{1}, digested: true, redacted: []byte(`{"a":1}`), withheld: "x",
	}
}

// Every field of a record is in its line. This test fails for a field that nobody writes.
func TestLinesHaveAllFields(t *testing.T) {
	r := whole()
	for i := range reflect.TypeFor[Record]().NumField() {
		f := reflect.TypeFor[Record]().Field(i)
		replaced := f.Name == "Arguments" || f.Name == "caller" // by their digest, by the principal
		require.True(t, replaced || !reflect.ValueOf(r).Field(i).IsZero(), f.Name)
	}
	line := newChain(nil).end(r.append(nil), 0)
	require.Equal(t, `{"time":"2026-11-23T01:02:03.000004Z","issuer":"https://login.example.com","subject":"ann","tenant":"acme",`+
		`"client_id":"cli-1","actors":["agent","proxy"],"client_name":"inspector","client_version":"1.2","address":"192.0.2.1:99",`+
		`"transport":"http","session":"abcd1234","request_id":"7","operation":"tools/call","target":"delete","task":"t1",`+
		`"arguments_digest":"01`+strings.Repeat("00", 31)+`","arguments":{"a":1},"arguments_withheld":"x","decision":"deny",`+
		`"rule":"no_deletes","reason":"because","dry_run":true,"stage":"policy","outcome":"refused","error_code":-32602,`+
		`"cause":"deadline","drop_reason":"broken_peer","duration_ms":1.500,"trace_id":"0af7651916cd43dd8448eb211c80319c","count":3}`, string(line))
	r.forgetPrincipal()
	require.Nil(t, r.Principal)
	r.Principal = new(queue).principal(&r.caller)
	require.Equal(t, string(line), string(newChain(nil).end(r.append(nil), 0)), "what is kept of a principal is all that is written of it")
}

// A text is written as the library writes it, with and without characters that need an escape or are
// replaced, and cut.
func TestTextsOfLines(t *testing.T) {
	for _, text := range []string{
		"", "plain", `principal.tenant == "bank" && arguments.path != "C:\"`, `"`, `\`, "tab\tline\n", "é日本語", "\u202e", "a\xff", "\x7f", "~ ",
		strings.Repeat("x", 20), strings.Repeat("x", 21), strings.Repeat(`"`, 21), strings.Repeat("é", 11),
	} {
		want, err := jsontext.AppendQuote([]byte("before"), logline.Printable(text, 20))
		require.NoError(t, err)
		require.Equal(t, string(want), string(appendText([]byte("before"), text, 20)), "%q", text)
	}
}

// Whatever a caller sends, a record is one line of valid JSON of a bounded size.
func FuzzLine(f *testing.F) {
	f.Add("plain", "text")
	f.Add("\n\x1b[31m\u202e\"\\", "\xff\xfe")
	f.Fuzz(func(t *testing.T, a, b string) {
		r := whole()
		r.Principal = &auth.Principal{Subject: a, Issuer: b, Tenant: a, Client: b, Actors: []string{a, b, a, b, a, b, a, b, a, b}}
		r.ClientName, r.ClientVersion, r.Target, r.RequestID, r.Reason, r.Session, r.Operation = a, b, a, b, a, b, a
		line := newChain(testKey).end(r.append(nil), 0)
		require.LessOrEqual(t, len(line), maxLineBytes)
		require.True(t, json.Valid(line), "%s", line)
		for _, c := range string(line) {
			require.GreaterOrEqual(t, c, ' ')
			require.NotEqual(t, '\u202e', c)
		}
		r.forgetPrincipal()
		r.Principal = new(queue).principal(&r.caller)
		require.Equal(t, string(line), string(newChain(testKey).end(r.append(nil), 0)))
		_, err := newChain(testKey).read(line)
		require.NoError(t, err)
	})
}

func TestDecisionOfAPolicy(t *testing.T) {
	for want, d := range map[Decision]auth.Decision{
		DecisionAllow: {Effect: auth.Allow}, DecisionNeedScopes: {Effect: auth.NeedScopes}, DecisionDeny: {},
	} {
		require.Equal(t, want, DecisionOf(&d))
		d.Err = errors.New("it cannot be evaluated")
		require.Equal(t, DecisionDeny, DecisionOf(&d), "an error denies")
	}
}
