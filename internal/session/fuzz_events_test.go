package session

import (
	"fmt"
	"slices"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// An eventKind is something that can happen in a script. a says to whom, b how.
type eventKind struct {
	name   string
	weight int
	do     func(sc *script, a, b byte)
}

// fuzzEvents holds each kind as often as its weight says.
var fuzzEvents = func() (table [128]eventKind) {
	kinds := []eventKind{
		{"connect", 4, func(sc *script, _, b byte) { sc.connect(b) }},
		{"open", 4, func(sc *script, _, b byte) { sc.openHTTP(fmt.Sprint("session-", len(sc.bySession)), b&1 == 0) }},
		{"call", 13, (*script).call},
		{"batch", 3, (*script).batch},
		{"modern-call", 4, (*script).modernCall},
		{"post", 10, (*script).legacyPost},
		{"modern-post", 6, (*script).modernPost},
		{"cancel", 9, (*script).cancel},
		{"bad-cancel", 2, (*script).badCancel},
		{"command", 16, (*script).command},
		{"reply", 6, (*script).reply},
		{"notification", 2, (*script).notification},
		{"malformed", 3, (*script).malformed},
		{"break", 3, (*script).breakWire},
		{"stick", 3, (*script).stick},
		{"unstick", 4, (*script).unstick},
		{"sleep", 10, (*script).sleep},
		{"lose", 4, (*script).lose},
		{"attach", 3, (*script).attach},
		{"detach", 2, (*script).detach},
		{"delete", 2, (*script).deleteSession},
		{"eof", 3, (*script).eof},
		{"close", 2, (*script).closePipe},
		{"fail", 1, (*script).failPipe},
		{"finish", 1, (*script).finishPipe},
		{"initialize", 2, (*script).initialize},
		{"ping", 2, (*script).ping},
		{"unadmitted", 1, (*script).unadmitted},
		{"shutdown", 1, func(sc *script, _, _ byte) { sc.shutdown() }},
		{"drain-deadline", 1, func(sc *script, _, _ byte) { sc.expireDrain() }},
		{"second-signal", 1, func(sc *script, _, _ byte) { sc.closeCore() }},
	}
	i := 0
	for _, k := range kinds {
		for range k.weight {
			table[i] = k
			i++
		}
	}
	if i != len(table) {
		panic(fmt.Sprint("the weights add up to ", i))
	}
	return table
}()

// fuzzIDs are the ids of all requests; those with one class are the same id.
var fuzzIDs = []struct{ raw, class string }{
	{`1`, "n1"}, {`"1"`, "s1"}, {`1.0`, "n1"}, {`1e0`, "n1"}, {`0`, "n0"}, {`""`, "s"}, {`2`, "n2"}, {`"\u0031"`, "s1"},
}

func classOf(raw string) string {
	for _, id := range fuzzIDs {
		if id.raw == raw {
			return id.class
		}
	}
	return ""
}

// pickOne returns the element that a byte names.
func pickOne[T any](all []T, a byte) (t T, ok bool) {
	if len(all) == 0 {
		return t, false
	}
	return all[int(a)%len(all)], true
}

func (sc *script) connect(b byte) {
	if len(sc.pipes) < 4 {
		sc.connectPipe(b%4 != 0)
	}
}

// pipe returns a byte stream, the first event for one makes it.
func (sc *script) pipe(a byte) *farEnd {
	if len(sc.pipes) == 0 {
		sc.connectPipe(true)
	}
	end, _ := pickOne(sc.pipes, a)
	return end
}

// feed is a frame that has arrived on a byte stream.
func (sc *script) feed(end *farEnd, frame string) {
	if end.eof {
		return // nothing comes after the end
	}
	in, bad := inbound(end.s.conn, frame)
	if bad != nil {
		sc.countBad(end, bad)
		open, last := false, false
		end.s.update(func(st *state) {
			open, last = st.phase == sessionOpen, st.malformed+1 >= sc.core.limits.MaxConsecutiveMalformed
		})
		end.garbage = end.garbage || last
		began := time.Now()
		end.s.Malformed(bad)
		if last && !isClosed(end.s.done) {
			sc.fault("E15: a garbled connection was not given up")
		}
		if took := time.Since(began); open && took > sc.core.limits.CleanupGrace+fuzzPause {
			sc.fault("I12: the end of a garbled connection took %v", took)
		}
		return
	}
	sc.count(in)
	end.s.Receive(in)
}

func (sc *script) count(in *Inbound) {
	switch in.Kind {
	case wire.Request:
		sc.fed["request"]++
	case wire.Notification:
		sc.fed["notification"]++
	case wire.Response:
		sc.fed["response"]++
	}
}

func (sc *script) countBad(end *farEnd, bad *wire.Error) {
	if bad.Kind == wire.Response {
		sc.fed["response"]++
		return
	}
	sc.fed["invalid"]++
	if sc.quiet && end.s.uses(bad.ID) {
		return
	}
	sc.mu.Lock()
	defer sc.mu.Unlock()
	end.calls[bad.ID.Key()]++ // its answer may carry the id
}

// request runs an event that brings a request and checks what can be foretold: an
// id in flight is rejected, and no other is rejected for that.
func (sc *script) request(end *farEnd, raw string, arrive func()) {
	taken := sc.undecided(end, raw) != nil
	n, quiet := len(sc.order), sc.quiet
	arrive()
	if !quiet || len(sc.order) == n {
		return
	}
	tr := sc.order[n]
	if taken && !tr.refused {
		sc.fault("E14: %s was admitted while its id was in flight", tr)
	}
	if !taken && tr.rejected == mcp.RejectDuplicateID {
		sc.fault("E14: the id of %s is not in flight", tr)
	}
}

// undecided returns the request of a session that a cancel of this id would hit.
func (sc *script) undecided(end *farEnd, raw string) *fuzzTrace {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	for _, tr := range sc.order {
		if tr.end == end && !tr.refused && classOf(tr.r.ID.Raw()) == classOf(raw) && tr.r.verdict.outcome() == open {
			return tr
		}
	}
	return nil
}

func (sc *script) call(a, b byte) {
	end, id := sc.pipe(a>>4), fuzzIDs[b&7].raw
	tool := fuzzTools[int(b>>4)]
	sc.request(end, id, func() { sc.feed(end, callFrame(id, tool)) })
}

func (sc *script) modernCall(a, b byte) {
	end, id := sc.pipe(a>>4), fuzzIDs[b&7].raw
	tool := fuzzTools[int(b>>4)]
	sc.request(end, id, func() { sc.feed(end, modernFrame(id, tool)) })
}

func (sc *script) legacyPost(a, b byte) {
	if end, ok := pickOne(sc.https, a); ok {
		id := fuzzIDs[b&7].raw
		sc.request(end, id, func() { sc.postTo(end, callFrame(id, fuzzTools[int(b>>4)])) })
	}
}

// postTo sends a message to a legacy HTTP session.
func (sc *script) postTo(end *farEnd, frame string) {
	in, bad := inbound(httpConn, frame)
	if bad != nil {
		sc.countBad(end, bad)
		x := sc.exchange(end, 1, mcp.Modern)
		sc.core.Malformed(bad, x.stream, false)
		if bad.Kind == wire.Response || bad.Kind == wire.Notification {
			close(x.done)
		} else {
			x.pump()
		}
		return
	}
	sc.count(in)
	if in.Kind != wire.Request {
		end.s.ReceiveOn(in, nil)
		return
	}
	x := sc.exchange(end, 1, mcp.Legacy)
	end.s.ReceiveOn(in, x.stream)
	x.pump()
}

func (sc *script) modernPost(_, b byte) {
	in, _ := inbound(httpConn, modernFrame(fuzzIDs[b&7].raw, fuzzTools[int(b>>4)]))
	sc.count(in)
	x := sc.exchange(sc.newEnd(), 1, mcp.Modern)
	sc.core.Receive(in, x.stream)
	x.pump()
}

// to sends a message to a client's session, however it is connected.
func (sc *script) to(a byte, frame string) *farEnd {
	ends := slices.Concat(sc.pipes, sc.https)
	end, ok := pickOne(ends, a)
	if ok && end.wire != nil {
		sc.feed(end, frame)
	} else if ok {
		sc.postTo(end, frame)
	}
	return end
}

// cancel sends a cancel, which hits the one request with its id, or nothing.
func (sc *script) cancel(a, b byte) {
	end, ok := pickOne(slices.Concat(sc.pipes, sc.https), a)
	if !ok || end.eof {
		return
	}
	id := fuzzIDs[b&7].raw
	hit := sc.undecided(end, id)
	var before *mcp.CancelError
	if hit != nil {
		before, _ = hit.r.Cancellation()
	}
	quiet := sc.quiet
	if hit != nil {
		hit.unwanted = true
	}
	sc.to(a, cancelFrame(id, "as scripted"))
	if hit == nil {
		return
	}
	after, _ := hit.r.Cancellation()
	switch {
	case hit.r.Route.Handshake:
		if after != before {
			sc.fault("E1: %s was cancelled", hit)
		}
	case hit.r.verdict.outcome() == open:
		sc.fault("E1: %s was cancelled and is not settled", hit)
	case before == nil && after == nil:
		// The answer was quicker.
	case before == nil && quiet && after.Cause != mcp.CauseClientCancel || before != nil && after != before:
		sc.fault("I3: %s was cancelled with %v, then with %v", hit, before, after)
	}
}

func (sc *script) badCancel(a, b byte) {
	frames := []string{
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":true}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":null}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled"}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"nobody"}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1.5}}`,
	}
	frame, _ := pickOne(frames, b)
	if b&0x80 != 0 { // over modern HTTP, where a cancel is ignored
		in, bad := inbound(httpConn, cancelFrame(fuzzIDs[b&7].raw, ""))
		if bad == nil {
			sc.count(in)
			sc.core.Notify(in)
		}
		return
	}
	sc.to(a, frame)
}

// command tells a handler what to do.
func (sc *script) command(a, b byte) {
	sc.mu.Lock()
	var running []*fuzzHandler
	for _, h := range sc.handlers {
		if !h.gone {
			running = append(running, h)
		}
	}
	sc.mu.Unlock()
	if h, ok := pickOne(running, a); ok {
		select {
		case h.todo <- b:
		default:
		}
	}
}

// reply answers a request of ours, in one of many wrong ways or rightly.
func (sc *script) reply(a, b byte) {
	end, ok := pickOne(slices.Concat(sc.pipes, sc.https), a)
	if !ok || end.eof {
		return
	}
	sc.mu.Lock()
	asked := slices.Clone(end.asked)
	sc.serial++
	serial := sc.serial
	sc.mu.Unlock()
	id, ok := pickOne(asked, b>>4)
	if !ok {
		id = "77"
	}
	text := fmt.Sprintf(`{"n":%d}`, serial)
	frame := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, text)
	switch b & 15 {
	case 0:
		frame = fmt.Sprintf(`{"jsonrpc":"2.0","id":"%s","result":%s}`, id, text) // another type
		text = ""
	case 1:
		frame = fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-1,"message":%q}}`, id, text)
	case 2:
		frame, text = fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":7}`, id), ""
	case 3:
		frame, text = fmt.Sprintf(`{"jsonrpc":"2.0","id":99%s,"result":%s}`, id, text), ""
	case 4:
		frame, text = `{"jsonrpc":"2.0","error":{"code":-32700,"message":"what?"}}`, ""
	case 5:
		frame, text = fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{},"error":{}}`, id), ""
	}
	sc.mu.Lock()
	if text != "" && ok && !end.replied[id] {
		end.replied[id], end.told[text] = true, false // the first answer counts
	}
	sc.mu.Unlock()
	sc.to(a, frame)
}

func (sc *script) notification(a, b byte) {
	methods := []string{"notifications/initialized", "notifications/roots/list_changed", "notifications/bomb"}
	method, _ := pickOne(methods, b)
	sc.to(a, fmt.Sprintf(`{"jsonrpc":"2.0","method":%q}`, method))
}

func (sc *script) malformed(a, b byte) {
	frames := []string{
		`{"jsonrpc":"2.0","id":1,"method":`, `[]`, `7`, `{"jsonrpc":"1.0","id":1,"method":"ping"}`,
		`{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`, "{\"jsonrpc\":\"2.0\",\"id\":\"\xff\",\"method\":\"ping\"}",
		`{"jsonrpc":"2.0","id":true,"method":"ping"}`, `{"jsonrpc":"2.0","id":1}`, "\x00",
		`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, `{"jsonrpc":"2.0","id":null,"method":"ping"}`,
	}
	frame, _ := pickOne(frames, b)
	sc.to(a, frame)
}

// wires returns all wires that are in use.
func (sc *script) wires() (all []*fuzzWire) {
	for _, end := range sc.pipes {
		all = append(all, end.wire)
	}
	for _, x := range sc.posts {
		if !x.ended() {
			all = append(all, x.wire)
		}
	}
	return all
}

func (sc *script) initialize(a, b byte) {
	sc.to(a, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"initialize","params":{}}`, fuzzIDs[b&7].raw))
}

func (sc *script) ping(a, b byte) {
	sc.to(a, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"ping"}`, fuzzIDs[b&7].raw))
}

// unadmitted is a message that the transport refuses before a session has it.
func (sc *script) unadmitted(_, b byte) {
	frames := []string{
		callFrame("1", "gate"), `{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":1,"result":{}}`,
	}
	frame, _ := pickOne(frames, b)
	in, _ := inbound(httpConn, frame)
	sc.count(in)
	if in.Kind == wire.Response && b&0x80 != 0 {
		sc.core.IgnoreResponse(mcp.IgnoreEraForbidden)
		return
	}
	if in.Kind == wire.Notification {
		sc.rejectedNotes++
	}
	sc.core.RejectUnadmitted(in, mcp.RejectSessionUnknown, SessionUnknown())
}
