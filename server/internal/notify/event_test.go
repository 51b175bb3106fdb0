package notify

import (
	"cmp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// Events before the acknowledgement of a subscription wait, and events after its end are not
// sent.
func TestEventsWaitForTheFirstSend(t *testing.T) {
	h := testHub()
	var told []string
	topic := Topic{Extension, "com.example/thing"}
	f := joined(h, func(n Notification, done func()) {
		told = append(told, n.method())
		if done != nil {
			done()
		}
	}, nil, []Topic{topic}, nil)
	event := func(method string) Notification { return Notification{Topic: topic, Method: method} }
	h.Publish(event("x/1"))
	h.Publish(event("x/2"))
	require.Empty(t, told)
	f.send()
	require.Equal(t, []string{"x/1", "x/2"}, told)
	h.Publish(event("x/3"))
	require.Equal(t, []string{"x/1", "x/2", "x/3"}, told)
	h.leave(f)
	h.Publish(event("x/4"))
	require.False(t, f.note(event("x/5"), topic), "it has left")
	require.Len(t, told, 3)
	h.empty(t)
}

// A subscriber that does not read loses the newest events, and no change.
func TestEventsBeyondTheLimitAreLost(t *testing.T) {
	h, m := testHub(), &mailbox{}
	h.overflow = m.overflow
	topic := Topic{Extension, "com.example/thing"}
	f := joined(h, m.post, nil, []Topic{topic, {Kind: Tools}}, nil)
	f.limit = 4
	f.send()
	f.tell(plain(Topic{Kind: Tools}), Topic{Kind: Tools}) // is being written
	for range 10 {
		h.Publish(Notification{Topic: topic, Method: "x"})
	}
	f.tell(plain(Topic{Kind: Tools}), Topic{Kind: Tools})
	require.Equal(t, 6, m.overflew)
	m.write()
	require.Equal(t, []Topic{{Kind: Tools}, topic, topic, topic, topic}, sorted(topicsIn(m.posted)))
	m.write()
	require.Empty(t, m.posted)
	h.leave(f)
}

// sorted puts the lists first.
func sorted(topics []Topic) []Topic {
	slices.SortStableFunc(topics, func(a, b Topic) int { return cmp.Compare(a.Kind, b.Kind) })
	return topics
}
