package session

import (
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

// Shared is something that callers share.
type Shared interface {
	Usage() share.Usage
	// Largest returns how much the largest of the callers holds, and which one that is.
	Largest(among []*share.Caller) (held int, of share.Key)
}

// Share describes what the callers of the core have of something that the core does not share out itself.
func (c *Core) Share(limit string, of Shared) ShareInfo {
	all := c.callers.All()
	defer releaseAll(all)
	return shareInfo(limit, of, all)
}

func shareInfo(limit string, of Shared, all []*share.Caller) ShareInfo {
	info := ShareInfo{Limit: limit, Usage: of.Usage()}
	info.Largest, info.Caller = of.Largest(all)
	return info
}

func releaseAll(all []*share.Caller) {
	for _, caller := range all {
		caller.Release()
	}
}

// sharesNow describes everything that callers share.
func (c *Core) sharesNow() []ShareInfo {
	all := c.callers.All()
	defer releaseAll(all)
	of := func(name string, s Shared) ShareInfo { return shareInfo(name, s, all) }
	queue := ShareInfo{Limit: limits.NameQueue, Usage: c.waiting.Usage()}
	queue.Largest, queue.Caller = c.waiting.Largest()
	unread := ShareInfo{Limit: limits.NameUnread, Usage: c.unread.Usage()}
	unread.Largest, unread.Caller, unread.Holders = c.unread.Largest(all)
	list := []ShareInfo{
		of(limits.NameInFlightTotal, c.slots), of(limits.NameInFlightControl, c.control), queue, of(limits.NameTurns, c.turns), unread,
		of(limits.NameSubscriptions, c.subscriptions), of(limits.NameSubscribedBytes, c.subscribed), of(limits.NameSessions, c.places), of(limits.NameRunningTasks, c.running),
		of(limits.NameBodyBytes, c.bodies), of(limits.NameArgumentBytesTotal, c.values), of(limits.NameQueuedBytesTotal, c.output.Budget),
	}
	if m := c.eventMemory(); m != nil {
		info := ShareInfo{Limit: limits.NameEventBytesTotal, Usage: share.Usage{Size: c.limits.MaxEventBytesTotal, Used: m.Held()}}
		if held, owner := m.Largest(); held > 0 {
			info.Largest, info.Caller = held, owner.(share.Key)
		}
		list = append(list, info)
	}
	for _, class := range c.usedClasses() {
		list = append(list, of(ClassPrefix+class.Name, class.pool))
	}
	return list
}
