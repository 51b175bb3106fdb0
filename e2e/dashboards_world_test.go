package e2e

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/redistest"
)

// A world is a set of servers with everything that a dashboard shows.
type world struct {
	drills []*drill
	// guarded is one of them, which accepts tokens.
	guarded *drill
	well    *server
	pipe    *pipe
	// asked is the number of questions of the server to the client on the pipe.
	asked int
}

// newWorld starts the servers.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{}
	for _, title := range []string{
		"A tool hangs", "A client cancels everything", "A reader does not read", "A handler ignores its context", "A peer vanishes",
		"Sessions leak", "One tenant floods the server", "Callers are over a rate limit", "The results of a tool grew", "Clients of another version are refused",
		"A schema rejects everything", "The collector is down",
		"Everybody gets 401", "One client gets 403", "The issuer is down",
	} {
		s, ok := situations()[title]
		if !ok {
			t.Fatalf("there is no situation %q", title)
		}
		d := begin(t, s)
		w.drills = append(w.drills, d)
		if title == "One client gets 403" {
			w.guarded = d
		}
		if title == "A handler ignores its context" {
			t.Cleanup(func() { d.kill(t) }) // its handlers never return
		}
	}
	store := redistest.Start(t, "e2e/redis")
	w.well = serveHTTP(t, receive(t).env(), sealed, withArgs("--audit-file", filepath.Join(t.TempDir(), "audit.jsonl"), "--store", "redis://"+store.Addr()))
	cert, key := certificate(t)
	w.pipe = connect(serveStdio(t, withArgs("--tls-cert", cert, "--tls-key", key)))
	initialize := initializeRequest()
	initialize.params["capabilities"] = object{"elicitation": object{}}
	if m := w.pipe.ask(t, initialize); m.Result == nil {
		t.Fatalf("initialize: %s", m)
	}
	w.pipe.write(t, request{method: "notifications/initialized", legacy: true}.frame())
	return w
}

// certificate writes a certificate of a server and its key, and returns the paths.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	pair := s.TLS.Certificates[0]
	secret, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, kind string, der []byte) (path string) {
		path = filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return write("server.crt", "CERTIFICATE", pair.Certificate[0]), write("server.key", "PRIVATE KEY", secret)
}

func (w *world) servers() (all []*server) {
	for _, d := range w.drills {
		all = append(all, d.server)
	}
	return append(all, w.well, w.pipe.server)
}

// provoke lets everything happen n times. After the first time each series exists.
func (w *world) provoke(t *testing.T, n int) {
	t.Helper()
	for _, d := range w.drills {
		d.provoke(t, d, n)
	}
	for i := range n {
		w.well.post(t, call(i, "echo", object{"text": "x"}))
		w.well.post(t, call(i, "panic", object{}))
		w.well.post(t, call(i, "refuse", object{}))
		w.well.post(t, request{id: i, method: "prompts/get", params: object{"name": "no such prompt"}})
		w.well.send(t, http.MethodPut, plainHeaders(), "")
		session := w.well.initialize(t)
		w.well.send(t, http.MethodDelete, session.headers(), "")
		w.steal(t)
		w.expire(t)
		w.subscribe(t)
		w.task(t)
		w.question(t)
		w.pipe.write(t, request{method: "notifications/cancelled", params: object{"requestId": "nobody's"}, legacy: true}.frame())
	}
}

// steal ends the session of somebody else, in vain.
func (w *world) steal(t *testing.T) {
	t.Helper()
	d := w.guarded
	a := d.bearing(t, d.issuer.Token(nil), initializeRequest())
	session := &legacySession{server: d.server, id: a.header.Get("Mcp-Session-Id")}
	h := session.headers()
	h.Set("Authorization", "Bearer "+d.issuer.Token(object{"sub": "eve"}))
	if a := d.send(t, http.MethodDelete, h, ""); a.status != http.StatusNotFound {
		t.Errorf("somebody else ends a session: %d %s", a.status, a.body)
	}
}

// expire opens a subscription that outlives its token.
func (w *world) expire(t *testing.T) {
	t.Helper()
	const ended = "vitrine_auth_streams_ended_total"
	d := w.guarded
	before := d.metrics(t).sum(ended)
	r := listening()
	h := r.headers()
	// The token is accepted for 2 s more: the server adds 10 s to its end, because clocks may differ.
	h.Set("Authorization", "Bearer "+d.issuer.Token(object{"exp": time.Now().Add(-8 * time.Second).Unix()}))
	defer d.begin(t, h, r.frame()).drop()
	eventually(t, func() error {
		if d.metrics(t).sum(ended) == before {
			return fmt.Errorf("the subscription goes on")
		}
		return nil
	})
}

func listening() request {
	return request{id: "listen", method: "subscriptions/listen", params: object{"notifications": object{"toolsListChanged": true}}}
}

// subscribe opens a subscription and disconnects.
func (w *world) subscribe(t *testing.T) {
	t.Helper()
	r := listening()
	p := w.well.begin(t, r.headers(), r.frame())
	w.well.awaitSubscriptions(t, 1)
	p.drop()
	w.well.awaitSubscriptions(t, 0)
}

// task lets a call go on as a task to its end.
func (w *world) task(t *testing.T) {
	t.Helper()
	const ended = "vitrine_task_duration_seconds"
	before := w.well.metrics(t).sum(ended)
	r := computing(1, 0.01)
	decodeTask(t, w.well.send(t, http.MethodPost, r.headers(), r.frame()).body)
	eventually(t, func() error {
		if w.well.metrics(t).sum(ended) == before {
			return fmt.Errorf("the task goes on")
		}
		return nil
	})
}

// question lets a tool ask the client, which declines.
func (w *world) question(t *testing.T) {
	t.Helper()
	w.asked++
	id := fmt.Sprint("asking", w.asked)
	w.pipe.write(t, call(id, "test_elicitation", object{"message": "Who are you?"}).inLegacy().frame())
	m := w.pipe.read(t)
	if m.Method != elicits {
		t.Fatalf("the server does not ask: %s", m)
	}
	w.pipe.write(t, encode(object{"jsonrpc": "2.0", "id": m.ID, "error": object{"code": -32603, "message": "not now"}}))
	w.pipe.readID(t, encode(id))
}
