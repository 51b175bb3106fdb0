package limits

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
)

// A Part is one kind of memory that callers can make the process hold. One limit bounds it.
type Part struct {
	// Name is the label of metrics and the name in docs/limits.md.
	Name string
	// Limit is the name of the limit.
	Limit string
	// Cost is the memory that one unit of the limit takes at most, in bytes. A limit in bytes
	// has a cost above 1 if the server needs a multiple of the bytes that it counts.
	Cost int
	// Scales tells that the limit may be above its default if there is enough memory. Limits in
	// bytes do; more sessions or connections than by default also need more file descriptors.
	Scales bool
}

// The names of the parts.
const (
	PartRequests      = "requests"
	PartArguments     = "arguments"
	PartOutput        = "output"
	PartValidation    = "validation"
	PartEvents        = "events"
	PartTasks         = "tasks"
	PartConnections   = "connections"
	PartSessions      = "sessions"
	PartSubscriptions = "subscriptions"
	PartSubscribed    = "subscribed"
	PartRunning       = "running"
	PartWaiting       = "waiting"
	PartDetached      = "running_tasks"
)

// Parts returns all parts, in the order of docs/limits.md. The caller must not change them.
func Parts() []Part { return parts }

var parts = []Part{
	{PartRequests, NameBodyBytes, 1, true},
	{PartArguments, NameArgumentBytesTotal, 1, true},
	{PartOutput, NameQueuedBytesTotal, 1, true},
	{PartValidation, NameValidationBytes, 12, true},
	{PartEvents, NameEventBytesTotal, 1, true},
	{PartTasks, NameTaskBytes, 1, true},
	{PartConnections, NameConnections, 24 << 10, false},
	{PartSessions, NameSessions, 20 << 10, false}, // of which 16 KiB are max_client_bytes
	{PartSubscriptions, NameSubscriptions, 32 << 10, false},
	{PartSubscribed, NameSubscribedBytes, 1, true},
	{PartRunning, NameInFlightTotal, 16 << 10, false},
	{PartWaiting, NameQueue, 16 << 10, false},
	{PartDetached, NameRunningTasks, 16 << 10, false},
}

// FixedBytes is the memory that no limit changes: the program, the runtime, and what telemetry
// keeps of recent requests and for changes.
const FixedBytes = 64 << 20

// reserved is the share of max_memory that the parts leave to handlers and to garbage that is
// not collected yet: one part of so many.
const reserved = 4

// Bytes returns how much memory the limits allow a part to hold. A product that is so large that
// the sum of all parts could not be an integer is less.
func (l Limits) Bytes(p Part) int {
	return min(*boundOf(p.Limit).Int(&l), math.MaxInt/16/l.cost(p)) * l.cost(p)
}

// cost returns the cost of a unit of a part with these limits: a session keeps what its client says of itself.
func (l Limits) cost(p Part) int {
	if byDefault := boundOf(NameClientBytes).Default.(int); p.Name == PartSessions && l.MaxClientBytes > 0 {
		return p.Cost + l.MaxClientBytes - byDefault
	}
	return p.Cost
}

// Memory returns how much memory the limits allow all parts to hold, with FixedBytes and ReservedBytes.
func (l Limits) Memory() int {
	sum := FixedBytes + min(l.ReservedBytes, math.MaxInt/16)
	for _, p := range parts {
		sum += l.Bytes(p)
	}
	return sum
}

// boundOf returns the bound with a name.
func boundOf(name string) Bound {
	return table[slices.IndexFunc(table, func(b Bound) bool { return b.Name == name })]
}

// smallestFrame is the least max_frame_bytes that follows from max_memory, and frameShare the
// part of max_memory from which it follows: a budget for a few messages of that size.
const (
	smallestFrame = 64 << 10
	frameShare    = 96
	// argumentShare is the part of max_memory that one decoded call takes at most: as much as by
	// default for each byte of its message.
	argumentShare = 8
)

// least returns the value below which a derived limit does not fall: every message that
// max_frame_bytes allows must pass, also while a reserve is kept for other callers, and a few of
// everything else.
func (p Part) least(l *Limits) int {
	switch {
	case p.Name == PartSubscribed:
		return 128 << 10 // holds no messages
	case p.Name == PartArguments:
		return 3 * l.MaxFrameBytes // a value takes up to twice its text, and one caller has no more than three quarters
	case p.Scales:
		return 2 * l.MaxFrameBytes
	}
	return 16
}

// fit sets the limits that are zero so that all parts together fit into MaxMemory, which must
// not be zero. All of them become the same multiple of their defaults, except for those that
// would fall below their least value, or rise above a default that does not scale.
func (l *Limits) fit() {
	if l.MaxFrameBytes == 0 {
		l.MaxFrameBytes = max(smallestFrame, min(boundOf(NameFrameBytes).Default.(int), l.MaxMemory/frameShare))
	}
	left, wanted := float64(l.partBytes()), 0.0
	var open []Part
	for _, p := range parts {
		if b := boundOf(p.Limit); *b.Int(l) != 0 {
			left -= float64(l.Bytes(p))
		} else {
			open = append(open, p)
			wanted += float64(b.Default.(int) * l.cost(p))
		}
	}
	for settled := true; settled; {
		settled = false
		factor := max(left, 0) / max(wanted, 1)
		open = slices.DeleteFunc(open, func(p Part) bool {
			b := boundOf(p.Limit)
			byDefault := b.Default.(int)
			value := int(float64(byDefault) * factor)
			switch least := p.least(l); {
			case value <= least:
				value = least
			case !p.Scales && value >= byDefault:
				value = byDefault
			default:
				return false
			}
			*b.Int(l) = value
			left -= float64(value * l.cost(p))
			wanted -= float64(byDefault * l.cost(p))
			settled = true
			return true
		})
	}
	for _, p := range open {
		b := boundOf(p.Limit)
		*b.Int(l) = int(float64(b.Default.(int)) * left / wanted)
	}
	if l.MaxArgumentBytes == 0 {
		l.MaxArgumentBytes = min(l.MaxMemory/argumentShare, boundOf(NameArgumentBytes).Default.(int))
	}
	if l.MaxEventBytes == 0 {
		l.MaxEventBytes = min(l.MaxEventBytesTotal, boundOf(NameEventBytes).Default.(int))
	}
	if l.MaxQueuedBytes == 0 {
		l.MaxQueuedBytes = min(l.MaxQueuedBytesTotal, boundOf(NameQueuedBytes).Default.(int))
	}
}

// partBytes returns how much of MaxMemory the parts may take.
func (l *Limits) partBytes() int {
	return l.MaxMemory - l.MaxMemory/reserved - FixedBytes - min(l.ReservedBytes, math.MaxInt/16)
}

// fits reports whether all parts together fit into MaxMemory. The limits must have their defaults.
func (l Limits) fits() bool { return l.Memory() <= l.MaxMemory-l.MaxMemory/reserved }

// mostMemory is the largest MaxMemory that LeastMemory returns, in MiB: a PiB.
const mostMemory = 1 << 30

// LeastMemory returns the least MaxMemory, in bytes and a whole number of MiB, into which the limits
// that are set fit with the least values of the others; 0 if a PiB is not enough.
func (l Limits) LeastMemory() int {
	mib := sort.Search(mostMemory, func(mib int) bool {
		l.MaxMemory = mib << 20
		return l.WithDefaults().fits()
	})
	if mib == mostMemory {
		return 0
	}
	return mib << 20
}

// checkMemory returns an error if the limits allow more memory than MaxMemory.
func (l Limits) checkMemory() error {
	if l.MaxMemory == 0 {
		return nil
	}
	fitted := l.WithDefaults()
	if fitted.fits() {
		return nil
	}
	var advice []string
	if least := l.LeastMemory(); least != 0 {
		advice = append(advice, fmt.Sprintf("raise it to %d at least", least))
	}
	var set []string
	add := func(name string) {
		if value := *boundOf(name).Int(&l); value != 0 {
			set = append(set, fmt.Sprintf("%s (%d)", name, value))
		}
	}
	add(NameReservedBytes)
	add(NameFrameBytes) // the limits in bytes have room for two messages of that size
	for _, p := range parts {
		add(p.Limit)
	}
	if len(set) > 0 {
		advice = append(advice, "lower "+strings.Join(set, ", "))
	}
	return fmt.Errorf("limit %s is %d, of which a quarter is for handlers, and the other limits need %d: %s",
		NameMemory, l.MaxMemory, fitted.Memory(), strings.Join(advice, ", or "))
}
