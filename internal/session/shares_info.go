package session

import (
	"slices"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/share"
)

// A ShareInfo describes what callers have of a limit that they share.
type ShareInfo struct {
	// Limit is the name of the limit, or [ClassPrefix] and the name of a class.
	Limit string
	share.Usage
	// Largest is how much the largest caller holds, and Caller is that caller.
	Largest int
	Caller  share.Key
}

// ClassPrefix begins the names of classes in a [ShareInfo].
const ClassPrefix = "class:"

// UseClass has snapshots show a class. It must be called before the first request for it.
func (c *Core) UseClass(class *Class) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Contains(c.classes, class) {
		c.classes = append(c.classes, class)
	}
}

// sharesNow describes everything that callers share.
func (c *Core) sharesNow() []ShareInfo {
	all := c.callers.All()
	defer func() {
		for _, caller := range all {
			caller.Release()
		}
	}()
	ofPool := func(name string, p *share.Pool) ShareInfo {
		info := ShareInfo{Limit: name, Usage: p.Usage()}
		info.Largest, info.Caller = p.Largest(all)
		return info
	}
	ofBytes := func(name string, b *share.Bytes) ShareInfo {
		info := ShareInfo{Limit: name, Usage: b.Usage()}
		info.Largest, info.Caller = b.Largest(all)
		return info
	}
	queue := ShareInfo{Limit: limits.NameQueue, Usage: c.waiting.Usage()}
	queue.Largest, queue.Caller = c.waiting.Largest()
	unread := ShareInfo{Limit: limits.NameUnread, Usage: c.unread.Usage()}
	unread.Largest, unread.Caller, unread.Holders = c.unread.Largest(all)
	list := []ShareInfo{
		ofPool(limits.NameInFlightTotal, c.slots), ofPool(limits.NameInFlightControl, c.control), queue, unread,
		ofPool(limits.NameSubscriptions, c.subscriptions), ofPool(limits.NameSessions, c.places),
		ofPool(limits.NameRunningTasks, c.running),
		ofBytes(limits.NameBodyBytes, c.bodies), ofBytes(limits.NameQueuedBytesTotal, c.output.Budget),
	}
	if m := c.eventMemory(); m != nil {
		list = append(list, ShareInfo{
			Limit: limits.NameEventBytesTotal, Usage: share.Usage{Size: c.limits.MaxEventBytesTotal, Used: m.Held()},
		})
	}
	c.mu.Lock()
	classes := slices.Clone(c.classes)
	c.mu.Unlock()
	for _, class := range classes {
		list = append(list, ofPool(ClassPrefix+class.Name, class.pool))
	}
	return list
}
