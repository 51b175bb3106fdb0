package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vitrine-mcp/vitrine/bench/servers"
)

// The names of the measurements of short sessions, for -only.
const (
	extraSessions        = "sessions/delete"
	extraSessionsForever = "sessions/forever"
)

// crowdedSessions is the number of sessions that are opened before a measurement without DELETE:
// more than a server of Vitrine keeps by default.
const crowdedSessions = 10_500

// shops measures shops whose users open a session for each call. If they never end one, it begins
// when the servers keep as many sessions as they want.
func (p plan) shops(programs programs, forever bool) (r result, err error) {
	p.kinds, p.parts = servers.Shops(), false
	s := scenario{kind: session, legacy: true, callers: p.users, forever: forever}
	backends, err := startBackends(programs.plain)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, backends.stop()) }()
	s.backends = backends.addresses
	return p.measure(s, programs, "")
}

// A sessionLoad has users of a shop. Each opens a session, says that it is initialized, sends one
// request, and ends the session, again and again. Like in the benchmark of http4k
// (benchmark-mcp-servers-v2), only initialize and the request count as requests.
type sessionLoad struct {
	scenario scenario
	users    []*user
	// more is the number of sessions that the first run opens at least.
	more int
}

// A user has one connection. It does the same things again and again.
type user struct {
	*conn
	head    string // of a request, up to the id of the session
	visits  []visit
	next    int
	request []byte
	took    []time.Duration
}

// A visit is the request of one session, and what its answer must contain: a part of the structured
// content, because the quotes of the text are escaped.
type visit struct{ body, want string }

func visits(name string) []visit {
	call := func(tool, arguments, want string) visit {
		return visit{fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, tool, arguments), want}
	}
	return []visit{
		call(servers.Search, `{"category":"`+servers.ShopCategory(3)+`","max_price":250,"limit":10}`, `"name":"A thing with the number 3"`),
		call(servers.Cart, fmt.Sprintf(`{"user":%q}`, name), fmt.Sprintf(`"user":%q`, name)),
		call(servers.Checkout, fmt.Sprintf(`{"user":%q,"items":[{"product":42,"quantity":2},{"product":1337,"quantity":1}]}`, name), `"status":"confirmed"`),
		{`{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{}}`, `"` + servers.Checkout + `"`},
	}
}

func newSessionLoad(s scenario, addr string) (*sessionLoad, error) {
	l := &sessionLoad{scenario: s}
	if s.forever {
		l.more = crowdedSessions
	}
	for i := range s.callers {
		c, err := dial(addr, 64<<10)
		if err != nil {
			l.close()
			return nil, err
		}
		l.users = append(l.users, &user{
			conn: c, visits: visits(servers.ShopUser(i)), next: i,
			head: fmt.Sprintf(" %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n", servers.Legacy, addr),
		})
	}
	return l, nil
}

func (l *sessionLoad) size() int { return len(l.users[0].body) }

func (l *sessionLoad) close() {
	for _, u := range l.users {
		u.close()
	}
}

func (l *sessionLoad) run(d time.Duration) (took []time.Duration, err error) {
	conns := make([]*conn, len(l.users))
	for i, u := range l.users {
		conns[i] = u.conn
	}
	defer poll(conns)()
	var failed atomic.Pointer[error]
	var all sync.WaitGroup
	end := time.Now().Add(d)
	for _, u := range l.users {
		all.Go(func() {
			if err := l.shop(u, end, &failed); err != nil {
				failed.CompareAndSwap(nil, &err)
			}
		})
	}
	all.Wait()
	l.more = 0
	if err := failed.Load(); err != nil {
		return nil, *err
	}
	for _, u := range l.users {
		took = append(took, u.took...)
	}
	return took, nil
}

// shop opens sessions until the end, at least one, or until another user has failed.
func (l *sessionLoad) shop(u *user, end time.Time, failed *atomic.Pointer[error]) error {
	u.took = u.took[:0]
	least := l.more / len(l.users)
	for n := 0; failed.Load() == nil && (n == 0 || n < least || time.Now().Before(end)); n++ {
		if err := u.setDeadline(time.Now().Add(patience)); err != nil {
			return err
		}
		if err := l.visit(u); err != nil {
			return err
		}
	}
	return nil
}

// visit is one session.
func (l *sessionLoad) visit(u *user) error {
	u.session = ""
	if err := u.ask(initialize, `"serverInfo"`); err != nil {
		return fmt.Errorf("initialize: %w", err)
	}
	if u.session == "" {
		return errors.New("initialize: no session")
	}
	if err := u.send(http.MethodPost, initialized); err != nil {
		return fmt.Errorf("notifications/initialized: %w", err)
	}
	u.next++
	v := u.visits[u.next%len(u.visits)]
	if err := u.ask(v.body, v.want); err != nil {
		return fmt.Errorf("%s: %w", v.body, err)
	}
	if l.scenario.forever {
		return nil
	}
	if err := u.send(http.MethodDelete, ""); err != nil {
		return fmt.Errorf("DELETE: %w", err)
	}
	return nil
}

// ask sends a request that counts, and looks for a part of its answer.
func (u *user) ask(body, want string) error {
	begin := time.Now()
	if err := u.send(http.MethodPost, body); err != nil {
		return err
	}
	u.took = append(u.took, time.Since(begin))
	if !bytes.Contains(u.body, []byte(want)) || bytes.Contains(u.body, []byte(`"isError":true`)) {
		return fmt.Errorf("the answer does not have %s: %.600q", want, u.body)
	}
	return nil
}

// send sends a request and reads its response.
func (u *user) send(method, body string) error {
	u.request = append(append(u.request[:0], method...), u.head...)
	if u.session != "" {
		u.request = append(append(append(u.request, "Mcp-Session-Id: "...), u.session...), "\r\n"...)
	}
	if method == http.MethodPost {
		u.request = fmt.Appendf(u.request, "Content-Length: %d\r\n", len(body))
	}
	u.request = append(append(u.request, "\r\n"...), body...)
	status, err := u.roundTrip(u.request)
	if err != nil {
		return err
	}
	if status/100 != 2 {
		return fmt.Errorf("status %d: %.300q", status, u.body)
	}
	return nil
}
