package telemetry

import (
	"sync"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/internal/report"
	"github.com/vitrine-mcp/vitrine/internal/session"
)

// Bounds of [exchangeEnds].
const (
	maxDisconnects   = 1024
	disconnectWindow = 10 * time.Minute
)

// exchangeEnds has the event streams that ended last, and the latest exchanges whose peer has left. It is
// safe for concurrent use. The zero value is empty.
type exchangeEnds struct {
	mu          sync.Mutex // guards the rest
	streams     endedStreams
	disconnects []report.Disconnect // the oldest first
	leftOut     int                 // disconnects within the window that had no room
	lastLeftOut time.Time
}

// ResourceUnsubscribed records that a legacy session was subscribed to a resource for so long. end is a value
// of the label of [MetricResourceSubscription].
func (t *Telemetry) ResourceUnsubscribed(end string, age time.Duration) {
	if t.Enabled() {
		t.metrics.histogram(MetricResourceSubscription, end).Observe(age.Seconds())
	}
}

// ExchangeEnded records the end of an event stream of an HTTP server, or of an exchange whose peer has
// left before its answer was written. kind and reason are values of the labels of
// [MetricStreamDuration]; kind is "" for an exchange that was no event stream. info describes the
// request, or else the session. op is the operation of the request; nil if there is none. age is the
// time since the header had arrived.
func (t *Telemetry) ExchangeEnded(info Info, op *Operation, kind, reason string, age time.Duration) {
	if !t.Enabled() {
		return
	}
	client, version := info.client(t.clients)
	left := reason == session.StreamPeerLeft
	via := logline.Printable(info.Via, maxText)
	if kind != "" {
		t.metrics.histogram(MetricStreamDuration, kind, reason).Observe(age.Seconds())
	}
	if left {
		t.metrics.histogram(MetricDisconnectAge).Observe(age.Seconds())
	}
	trace, _ := spanIDs(op.SpanContext())
	now := t.now()
	x := &t.exchanges
	x.mu.Lock()
	defer x.mu.Unlock()
	if kind != "" {
		x.streams.add(&report.EndedStream{
			At: now, Kind: kind, Reason: reason, AgeSeconds: age.Seconds(), Tool: info.Target,
			RequestID: logline.Printable(info.ID.String(), maxText), TraceID: trace, Client: client, ClientVersion: version,
			Principal: logline.Printable(info.Principal.String(), maxName), Session: info.sessionName(), Remote: info.RemoteAddr,
			Via: via, ForwardedFor: logline.Printable(info.ForwardedFor, maxText),
		})
	}
	if left {
		if len(x.disconnects) == maxDisconnects && now.Sub(x.disconnects[0].At) < disconnectWindow {
			x.leftOut, x.lastLeftOut = x.leftOut+1, now
		}
		if len(x.disconnects) == maxDisconnects {
			x.disconnects = append(x.disconnects[:0], x.disconnects[1:]...)
		}
		x.disconnects = append(x.disconnects, report.Disconnect{At: now, Age: age, Via: via, Client: client, ClientVersion: version})
	}
}

// report returns what pages show.
func (x *exchangeEnds) report(now time.Time) ([]report.EndedStream, report.Disconnects) {
	x.mu.Lock()
	streams := x.streams.all()
	var recent []report.Disconnect
	for i := range x.disconnects {
		if now.Sub(x.disconnects[i].At) < disconnectWindow {
			recent = append(recent, x.disconnects[i])
		}
	}
	leftOut := x.leftOut
	if now.Sub(x.lastLeftOut) >= disconnectWindow {
		leftOut = 0
	}
	x.mu.Unlock()
	return streams, report.DisconnectsOf(recent, disconnectWindow, leftOut > 0)
}
