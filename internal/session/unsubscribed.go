package session

import "time"

// How the subscription of a legacy session to a resource ends.
const (
	EndUnsubscribed = "unsubscribed"  // by its client
	EndElsewhere    = "other_replica" // by its client, at another replica
	EndWithSession  = "session_ended"
)

// ResourceSubscriptionEnds lists these ends. The caller owns the slice.
func ResourceSubscriptionEnds() []string {
	return []string{EndUnsubscribed, EndElsewhere, EndWithSession}
}

// ResourceUnsubscribed tells the observer that the session was subscribed to a resource for so long.
func (s *Session) ResourceUnsubscribed(end string, age time.Duration) {
	s.core.tell("ResourceUnsubscribed", func(o Observer) { o.ResourceUnsubscribed(s, end, age) })
}
