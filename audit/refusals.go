package audit

import (
	"net/netip"
	"sync"
	"time"
)

// maxRefusalKeys bounds how many kinds of refusals are told apart in a minute.
const maxRefusalKeys = 1024

// otherRefusals stands for the reasons beyond maxRefusalKeys.
const otherRefusals = "_OTHER"

// refusals counts the refusals of unknown callers, minute by minute.
type refusals struct {
	full func([]Record) // takes the records of a minute

	mu     sync.Mutex
	minute time.Time
	counts map[refusalKey]*Record
	timer  *time.Timer
	closed bool
}

// A refusalKey tells refusals apart.
type refusalKey struct {
	stage     Stage
	reason    string
	network   netip.Prefix
	transport string
}

// networkOf returns the network of an address: 24 bits of IPv4, 48 of IPv6, which is what one customer
// of a provider has. It is the zero value if there is no address.
func networkOf(address string) netip.Prefix {
	var addr netip.Addr
	if ap, err := netip.ParseAddrPort(address); err == nil {
		addr = ap.Addr()
	} else if addr, err = netip.ParseAddr(address); err != nil {
		return netip.Prefix{}
	}
	addr = addr.Unmap().WithZone("")
	bits := 48
	if addr.Is4() {
		bits = 24
	}
	network, _ := addr.Prefix(bits) // no address has fewer
	return network
}

// add counts a refusal.
func (f *refusals) add(r *Record) {
	key := refusalKey{r.Stage, cutText(r.Reason, maxShort), networkOf(r.Address), r.Transport}
	minute := r.Time.Truncate(time.Minute)
	f.mu.Lock()
	defer f.mu.Unlock()
	if !minute.Equal(f.minute) {
		f.flush()
		f.minute = minute
	}
	c := f.counts[key]
	if c == nil && len(f.counts) >= maxRefusalKeys {
		key = refusalKey{stage: r.Stage, reason: otherRefusals}
		c = f.counts[key]
	}
	if c == nil {
		c = f.first(key, r)
	}
	c.Count++
	c.Duration = max(c.Duration, r.Time.Sub(c.Time))
}

// first begins a record. The caller must hold f.mu.
func (f *refusals) first(key refusalKey, r *Record) *Record {
	c := &Record{
		Time: r.Time, Transport: key.transport, Operation: OperationRefused, Decision: r.Decision, Reason: key.reason,
		Stage: key.stage, Outcome: OutcomeRefused, ErrorCode: r.ErrorCode,
	}
	if key.network.IsValid() {
		c.Address = key.network.String()
	}
	if f.counts == nil {
		f.counts = map[refusalKey]*Record{}
	}
	f.counts[key] = c
	if len(f.counts) == 1 && !f.closed {
		f.timer = time.AfterFunc(time.Minute, f.expire)
	}
	return c
}

// expire ends a minute after which nothing has come.
func (f *refusals) expire() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.flush()
}

// flush gives the records of the minute away. The caller must hold f.mu.
func (f *refusals) flush() {
	if f.timer != nil {
		f.timer.Stop()
		f.timer = nil
	}
	if len(f.counts) == 0 {
		return
	}
	records := make([]Record, 0, len(f.counts))
	for _, c := range f.counts {
		records = append(records, *c)
	}
	clear(f.counts)
	f.full(records)
}

// close ends the last minute.
func (f *refusals) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	f.flush()
}
