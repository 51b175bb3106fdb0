package telemetry

import (
	"sync"
	"time"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// Session reports that a session or a connection was opened, for a server that is no [Source]. The
// session is shown until end is called with the cause of its end. info describes the connection
// and the client; the other fields are not used.
func (t *Telemetry) Session(info Info) (end func(cause mcp.Cause)) {
	if !t.Enabled() {
		return func(mcp.Cause) {}
	}
	if info.ArrivedAt.IsZero() {
		info.ArrivedAt = time.Now()
	}
	s, k := &trackedSession{info}, t.tracked
	k.add()
	k.mu.Lock()
	if len(k.sessions) < maxTracked {
		k.sessions[s] = struct{}{}
	}
	k.mu.Unlock()
	var once sync.Once
	return func(cause mcp.Cause) {
		once.Do(func() {
			k.mu.Lock()
			delete(k.sessions, s)
			k.own.SessionsClosed[cause]++
			k.mu.Unlock()
			t.SessionEnded(info, cause)
		})
	}
}

// SessionEnded records the duration of a session, which began at [Info.ArrivedAt]. It is for a
// [Source], which shows and counts its sessions itself.
func (t *Telemetry) SessionEnded(info Info, cause mcp.Cause) {
	if !t.Enabled() {
		return
	}
	errorType := ""
	if cause.Fault() && cause != mcp.CauseTransportClose && cause != mcp.CauseServerShutdown {
		errorType = string(cause) // the end of a connection and a shutdown are no errors
	}
	n := info.network()
	t.metrics.histogram(MetricSessionDuration, errorType, versionLabel(info.Version), n.transport, n.protocol, n.version).
		Observe(t.now().Sub(info.ArrivedAt).Seconds())
}

// Written records how long it took to write and flush a message. transport is "http", "stdio" or
// "memory". All others count as "_OTHER".
func (t *Telemetry) Written(transport string, took time.Duration) {
	if !t.Enabled() {
		return
	}
	o := t.metrics.writes[transport]
	if o == nil { // a transport of the program; its series is made on first use
		o = t.metrics.histogram(MetricWrite, other)
	}
	o.Observe(took.Seconds())
}
