package rates

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/mcp"
)

var begin = time.Unix(1_000_000, 0)

func limiter(t testing.TB, rules ...Rule) *Limiter {
	t.Helper()
	l, err := New(rules, 1000, func() {})
	require.NoError(t, err)
	return l
}

// call is a call of a tool by a caller at an address.
func call(addr, tool string) *Message {
	return &Message{Method: mcp.MethodToolsCall, Tool: tool, Addr: addr}
}

func as(subject, tenant string, m *Message) *Message {
	m.Principal = &auth.Principal{Issuer: "https://login.example", Subject: subject, Tenant: tenant}
	return m
}

// passes returns how many of n equal messages pass at one moment.
func passes(l *Limiter, n int, m *Message, now time.Time) (passed int) {
	for range n {
		if l.Check(m, now) == nil {
			passed++
		}
	}
	return passed
}

func TestMessagesPassUntilTheBucketIsEmptyAndAgainWhenItRefills(t *testing.T) {
	l := limiter(t, Rule{Name: "calls", Requests: 60, Window: time.Minute, Burst: 5})
	m := call("203.0.113.9:1", "echo")
	require.Equal(t, 5, passes(l, 10, m, begin))
	refused := l.Check(m, begin.Add(200*time.Millisecond))
	require.NotNil(t, refused)
	require.Equal(t, mcp.Refusal{
		Status: 429, Reason: Reason, By: "calls", Limit: "calls", RetryAfter: 800 * time.Millisecond,
		Message: "there are too many requests: the limit calls is 60 in 1m0s",
	}, *refused)
	require.Equal(t, mcp.ErrorData{Reason: Reason, Limit: "calls", RetryAfter: 1}, refused.RPC().Data)
	require.Equal(t, 1, passes(l, 10, m, begin.Add(time.Second)))
	require.Equal(t, 5, passes(l, 10, m, begin.Add(time.Hour)), "no more than the burst, however long the pause was")
}

func TestAQuotaAllowsItsNumberAndThenWhatComesBack(t *testing.T) {
	l := limiter(t, Rule{Name: "daily", Requests: 1000, Window: 24 * time.Hour, Per: []string{PerTenant}})
	m := as("ann", "acme", call("", "echo"))
	require.Equal(t, 1000, passes(l, 2000, m, begin))
	require.Equal(t, 87, l.Check(m, begin).RetryAfterSeconds(), "a thousandth of a day")
	require.Equal(t, 500, passes(l, 2000, m, begin.Add(12*time.Hour)))
}

// Each row has two messages, and whether they take tokens from the same bucket.
func TestBucketsAreByWhatTheRuleIsPer(t *testing.T) {
	const a, b = "203.0.113.9:1", "203.0.113.10:1"
	pipe, other := &struct{ int }{}, &struct{ int }{}
	for _, tt := range []struct {
		name     string
		per      string
		one, two *Message
		same     bool
	}{
		{"nothing", "", call(a, "x"), as("ann", "", call(b, "y")), true},
		{"another port", PerAddress, call(a, "x"), call("203.0.113.9:2", "x"), true},
		{"another address", PerAddress, call(a, "x"), call(b, "x"), false},
		{"IPv4 mapped to IPv6", PerAddress, call(a, "x"), call("[::ffff:203.0.113.9]:1", "x"), true},
		{"an address without a port", PerAddress, call(a, "x"), call("203.0.113.9", "x"), true},
		{"one network of IPv6", PerAddress, call("[2001:db8::1]:1", "x"), call("[2001:db8::ffff:2]:1", "x"), true},
		{"IPv6 on this host", PerAddress, call("[::1]:1", "x"), call("@", "x"), false},
		{"another network of IPv6", PerAddress, call("[2001:db8::1]:1", "x"), call("[2001:db8:0:1::1]:1", "x"), false},
		{"a zone", PerAddress, call("[fe80::1%a]:1", "x"), call("[fe80::1%b]:1", "x"), true},
		{"one connection", PerAddress, &Message{Conn: pipe}, &Message{Conn: pipe}, true},
		{"another connection", PerAddress, &Message{Conn: pipe}, &Message{Conn: other}, false},
		{"one principal", PerPrincipal, as("ann", "acme", call(a, "x")), as("ann", "acme", call(b, "y")), true},
		{"one subject in two tenants", PerPrincipal, as("ann", "", call(a, "x")), as("ann", "acme", call(a, "x")), false},
		{"another principal", PerPrincipal, as("ann", "", call(a, "x")), as("bob", "", call(a, "x")), false},
		{"no principal, one address", PerPrincipal, call(a, "x"), call(a, "y"), true},
		{"no principal, another address", PerPrincipal, call(a, "x"), call(b, "x"), false},
		{"long principals", PerPrincipal, as(strings.Repeat("a", 9999), "", call(a, "x")), as(strings.Repeat("a", 9998), "", call(a, "x")), false},
		{"one tenant", PerTenant, as("ann", "acme", call(a, "x")), as("bob", "acme", call(b, "x")), true},
		{"one tenant of another issuer", PerTenant, as("ann", "acme", call(a, "x")), &Message{
			Method: mcp.MethodToolsCall, Principal: &auth.Principal{Issuer: "https://other.example", Subject: "ann", Tenant: "acme"},
		}, false},
		{"another tenant", PerTenant, as("ann", "acme", call(a, "x")), as("ann", "umbrella", call(a, "x")), false},
		{"no tenant", PerTenant, as("ann", "", call(a, "x")), as("bob", "", call(a, "x")), false},
		{"one tool", PerTool, call(a, "x"), call(b, "x"), true},
		{"another tool", PerTool, call(a, "x"), call(a, "y"), false},
		{"another method", PerMethod, &Message{Method: mcp.MethodToolsList}, &Message{Method: mcp.MethodPromptsList}, false},
		{"made up notifications", PerMethod, &Message{Method: "a", Notification: true}, &Message{Method: "b", Notification: true}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rule := Rule{Name: "x", Requests: 1, Window: time.Minute}
			if tt.per != "" {
				rule.Per = []string{tt.per}
			}
			l := limiter(t, rule)
			require.Nil(t, l.Check(tt.one, begin))
			require.Equal(t, tt.same, l.Check(tt.two, begin) != nil)
		})
	}
}

func TestARuleLimitsWhatItIsFor(t *testing.T) {
	const tools, list = mcp.MethodToolsCall, mcp.MethodToolsList
	for _, tt := range []struct {
		name         string
		rule         Rule
		method, tool string
		want         bool
	}{
		{"all methods", Rule{}, list, "", true},
		{"all notifications", Rule{}, mcp.NotificationProgress, "", true},
		{"not the handshake", Rule{}, mcp.MethodInitialize, "", false},
		{"not its end", Rule{}, mcp.NotificationInitialized, "", false},
		{"not ping", Rule{}, mcp.MethodPing, "", false},
		{"not discover", Rule{}, mcp.MethodServerDiscover, "", false},
		{"not the end of a task", Rule{}, mcp.MethodTasksCancel, "", false},
		{"not cancel", Rule{}, mcp.NotificationCancelled, "", false},
		{"the handshake by name", Rule{Methods: []string{mcp.MethodInitialize}}, mcp.MethodInitialize, "", true},
		{"another method", Rule{Methods: []string{mcp.MethodInitialize}}, list, "", false},
		{"a tool", Rule{Tools: []string{"x"}}, tools, "x", true},
		{"another tool", Rule{Tools: []string{"x"}}, tools, "y", false},
		{"a prompt with the name of a tool", Rule{Tools: []string{"x"}}, mcp.MethodPromptsGet, "x", false},
		{"per tool", Rule{Per: []string{PerTool}}, tools, "x", true},
		{"per tool, and another method", Rule{Per: []string{PerTool}}, list, "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.rule.Name, tt.rule.Requests, tt.rule.Window = "x", 1, time.Minute
			l := limiter(t, tt.rule)
			m := &Message{Method: tt.method, Tool: tt.tool}
			require.Equal(t, tt.want, passes(l, 2, m, begin) < 2)
		})
	}
}

func TestARefusedMessageTakesNoTokenOfAnyRule(t *testing.T) {
	l := limiter(t,
		Rule{Name: "all", Requests: 10, Window: time.Minute},
		Rule{Name: "ann", Requests: 1, Window: time.Hour, Per: []string{PerPrincipal}},
		Rule{Name: "short", Requests: 1, Window: time.Second, Per: []string{PerPrincipal}},
	)
	require.Equal(t, 1, passes(l, 100, as("ann", "", call("", "x")), begin))
	require.Equal(t, "ann", l.Check(as("ann", "", call("", "x")), begin).Limit, "the longest wait is told")
	for i := range 9 {
		require.Nil(t, l.Check(as(fmt.Sprint("user", i), "", call("", "x")), begin), "others have what ann did not get")
	}
	require.Equal(t, "all", l.Check(as("user", "", call("", "x")), begin).Limit)
	states := l.States(begin)
	require.Equal(t, State{Name: "all", Allowed: 10, Refused: 1, Buckets: 1, Used: 1}, states[0])
	require.Equal(t, State{Name: "ann", Allowed: 10, Refused: 100, Buckets: 11, Used: 1}, states[1])
	require.Equal(t, State{Name: "short", Allowed: 10, Buckets: 11, Used: 1}, states[2])
}

// The time of a message is taken before the rules of admission run, so messages can come out of order.
func TestAMessageThatComesLateEarnsNoTokens(t *testing.T) {
	l := limiter(t, Rule{Name: "x", Requests: 10, Window: time.Second, Burst: 10})
	m := call("192.0.2.1", "x")
	passed := 0
	for range 1000 {
		passed += passes(l, 1, m, begin) + passes(l, 1, m, begin.Add(time.Second))
	}
	require.Equal(t, 11, passed, "one, and a full bucket a second later")
}

// An attacker with any number of keys takes neither memory nor tokens of others.
func TestBucketsAreBounded(t *testing.T) {
	evicted := 0
	l, err := New([]Rule{{Name: "x", Requests: 2, Window: time.Minute, Per: []string{PerAddress}}}, 100, func() { evicted++ })
	require.NoError(t, err)
	good, abuser, silent := call("192.0.2.1", "x"), call("192.0.2.2", "x"), call("192.0.2.3", "x")
	require.Nil(t, l.Check(good, begin))
	require.Equal(t, 2, passes(l, 2, abuser, begin))
	require.Equal(t, 2, passes(l, 2, silent, begin))
	const attackers = 20_000
	for i := range attackers {
		require.Nil(t, l.Check(call(fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255), "x"), begin))
		if i%50 == 0 {
			require.NotNil(t, l.Check(abuser, begin), "a bucket that is asked stays")
		}
		require.LessOrEqual(t, l.States(begin)[0].Buckets, 100)
	}
	require.Nil(t, l.Check(good, begin))
	require.NotNil(t, l.Check(silent, begin), "a bucket goes after those that are fuller")
	require.Equal(t, attackers+4-100, evicted)

	later := begin.Add(time.Hour)
	evicted = 0
	for i := range 50 {
		require.Nil(t, l.Check(call(fmt.Sprintf("192.168.0.%d", i), "x"), later))
	}
	require.Equal(t, 50, l.States(later)[0].Buckets, "full buckets that nobody uses go first")
	require.Zero(t, evicted)
}

// Many addresses push out no principal: the rule with most buckets loses some.
func TestRulesShareTheirRoom(t *testing.T) {
	l, err := New([]Rule{
		{Name: "principals", Requests: 1, Window: time.Hour, Per: []string{PerPrincipal}, Methods: []string{mcp.MethodToolsCall}},
		{Name: "addresses", Requests: 2, Window: time.Hour, Per: []string{PerAddress}, Methods: []string{mcp.MethodToolsList}},
	}, 20, func() {})
	require.NoError(t, err)
	ann := as("ann", "", call("", "x"))
	require.Nil(t, l.Check(ann, begin))
	for i := range 1000 {
		require.Nil(t, l.Check(&Message{Method: mcp.MethodToolsList, Addr: fmt.Sprintf("10.0.%d.%d", i>>8, i&255)}, begin))
	}
	states := l.States(begin)
	require.Equal(t, 20, states[0].Buckets+states[1].Buckets)
	require.Equal(t, 1, states[0].Buckets)
	require.NotNil(t, l.Check(ann, begin))
}

// A bucket is kept, the token of its principal and the frame of its message are not.
func TestBucketsHoldNoTextsOfOthers(t *testing.T) {
	l := limiter(t, Rule{Name: "x", Requests: 2, Window: time.Minute, Per: []string{PerPrincipal, PerMethod}})
	token := "long token of ann"
	m := as(token[len(token)-3:], "", &Message{Method: mcp.MethodToolsList})
	require.Nil(t, l.Check(m, begin))
	for kept := range l.rules[0].buckets.byKey {
		require.Equal(t, "ann", kept.subject)
		require.NotSame(t, unsafe.StringData(m.Principal.Subject), unsafe.StringData(kept.subject))
	}
}

func TestNearestIsTheEmptiestBucket(t *testing.T) {
	l := limiter(t, Rule{Name: "x", Requests: 10, Window: 10 * time.Second, Per: []string{PerAddress}})
	require.Zero(t, l.States(begin)[0].Used)
	passes(l, 2, call("192.0.2.1", "x"), begin)
	passes(l, 7, call("192.0.2.2", "x"), begin)
	passes(l, 1, call("192.0.2.3", "x"), begin)
	require.InDelta(t, 0.7, l.States(begin)[0].Used, 1e-9)
	require.InDelta(t, 0.3, l.States(begin.Add(4 * time.Second))[0].Used, 1e-9)
	require.Zero(t, l.States(begin.Add(time.Minute))[0].Used)
}

func TestWrongRulesAreNamed(t *testing.T) {
	ok := Rule{Name: "ok", Requests: 1, Window: time.Second}
	change := func(f func(*Rule)) Rule { r := ok; r.Name = "bad"; f(&r); return r }
	for want, rule := range map[string]Rule{
		`rate limit "": a name`:                     {Requests: 1, Window: time.Second},
		`rate limit "a b": a name`:                  change(func(r *Rule) { r.Name = "a b" }),
		`rate limit "ok": there are two`:            ok,
		"requests must be positive, and is 0":       change(func(r *Rule) { r.Requests = 0 }),
		"window must be between 1ms and":            change(func(r *Rule) { r.Window = 0 }),
		"burst must not be negative, and is -1":     change(func(r *Rule) { r.Burst = -1 }),
		`per "user" is not known`:                   change(func(r *Rule) { r.Per = []string{"user"} }),
		`per "tool" is there twice`:                 change(func(r *Rule) { r.Per = []string{PerTool, PerTool} }),
		"notifications/cancelled cannot be limited": change(func(r *Rule) { r.Methods = []string{mcp.NotificationCancelled} }),
		"a rule about tools needs the method":       change(func(r *Rule) { r.Methods, r.Tools = []string{mcp.MethodPing}, []string{"x"} }),
		"the name of a method or a tool is empty":   change(func(r *Rule) { r.Tools = []string{""} }),
	} {
		_, err := New([]Rule{ok, rule}, 10, func() {})
		require.ErrorContains(t, err, want)
	}
	many := make([]Rule, maxRules+1)
	for i := range many {
		many[i] = ok
		many[i].Name = fmt.Sprint("n", i)
	}
	_, err := New(many, 10, func() {})
	require.ErrorContains(t, err, "there are 65 rate limits, 64 are allowed")
	none, err := New(nil, 10, func() {})
	require.NoError(t, err)
	require.Nil(t, none)
	require.Nil(t, none.Check(call("", "x"), begin))
	require.Empty(t, none.States(begin))
}

// everyKey are rules of all kinds, with room for any number of messages.
func everyKey() (rules []Rule) {
	for _, per := range PerValues() {
		rules = append(rules, Rule{Name: per, Requests: 1e6, Window: time.Millisecond, Per: []string{per}})
	}
	return rules
}

// A message that passes costs no allocation.
func TestCheckAllocations(t *testing.T) {
	l := limiter(t, everyKey()...)
	m := as("ann", "acme", call("[2001:db8::1]:443", "echo"))
	now := begin
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		now = now.Add(time.Millisecond)
		if l.Check(m, now) != nil {
			t.Fatal("refused")
		}
	}))
}

func BenchmarkCheck(b *testing.B) {
	for _, rules := range [][]Rule{nil, everyKey()[:1], everyKey()} {
		l := limiter(b, rules...)
		m := as("ann", "acme", call("203.0.113.9:443", "echo"))
		b.Run(fmt.Sprintf("%d rules", len(rules)), func(b *testing.B) {
			b.ReportAllocs()
			now := begin
			for b.Loop() {
				now = now.Add(time.Microsecond)
				l.Check(m, now)
			}
		})
	}
}
