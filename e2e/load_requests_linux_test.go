package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// A plainRequest is a request of a client that calls no tool, such as initialize.
type plainRequest struct {
	name    string // for people, and for counting
	method  string // of HTTP
	headers http.Header
	body    string
	trace   string // of the header traceparent
	want    []int  // the statuses that its response may have
	call    string // id of the call whose stream it resumes, or ""
}

// plain returns the request that posts a message.
func plain(headers http.Header, r request) plainRequest {
	want := http.StatusOK
	if r.id == nil {
		want = http.StatusAccepted
	}
	return plainRequest{name: r.method, method: http.MethodPost, headers: headers, body: r.frame(), trace: newTrace(), want: []int{want}}
}

// A failedRequest is a plain request that has failed, as its client knows it.
type failedRequest struct {
	plainRequest
	began  time.Time // when it was sent
	failed time.Time
	status int // 0 if there was no response
	answer string
	err    error
	outage bool // the store was away then, or an event may not have been stored that this asks for
}

// String says what there is to know of it, without the id of its session.
func (r failedRequest) String() string {
	const clock = "15:04:05.000"
	return fmt.Sprintf("%s, sent at %s, has failed at %s (trace %s): status %d, want %v, body %.300q, error %v",
		r.name, r.began.Format(clock), r.failed.Format(clock), r.trace, r.status, r.want, r.answer, r.err)
}

// open sends a plain request, and notes it if it fails. The caller closes the body of the response. That is nil if
// there is no response; ok says that it has a status that its client wants.
func (l *load) open(ctx context.Context, client *http.Client, r plainRequest) (resp *http.Response, sent failedRequest, ok bool) {
	sent = failedRequest{plainRequest: r, began: time.Now()}
	headers := r.headers.Clone()
	headers.Set("Traceparent", traceparent(r.trace))
	sent.outage = l.count(r.name)
	resp, err := l.do(client, ctx, r.method, headers, r.body)
	if err != nil {
		l.noteFailed(ctx, sent, 0, "", err)
		return nil, sent, false
	}
	if slices.Contains(r.want, resp.StatusCode) {
		return resp, sent, true
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(body))
	l.noteFailed(ctx, sent, resp.StatusCode, string(body), err)
	return resp, sent, false
}

// ask sends a plain request, and reads the whole response. One with the status 200 must have a result: a legacy error
// has that status, too.
func (l *load) ask(ctx context.Context, client *http.Client, r plainRequest) (a answer, ok bool) {
	resp, sent, ok := l.open(ctx, client, r)
	if resp == nil {
		return a, false
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	a = answer{status: resp.StatusCode, header: resp.Header, body: string(body)}
	if ok && (err != nil || a.status == http.StatusOK && !strings.Contains(a.body, `"result"`)) {
		l.noteFailed(ctx, sent, a.status, a.body, err)
		return a, false
	}
	return a, ok
}

// count counts a plain request by its name, and reports whether the store is away.
func (l *load) count(name string) (away bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests[name]++
	return l.away
}

// noteFailed notes that a plain request has failed, unless its client has given it up.
func (l *load) noteFailed(ctx context.Context, r failedRequest, status int, answer string, err error) {
	if ctx.Err() != nil {
		return
	}
	r.failed, r.status, r.answer, r.err = time.Now(), status, answer, err
	l.mu.Lock()
	defer l.mu.Unlock()
	r.outage = r.outage || l.away || l.wasAway && r.noEvent()
	l.failed = append(l.failed, r)
}
