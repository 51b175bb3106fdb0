package notify

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/session"
)

// What feeds are about has a bound for all together. A feed that has found no room, left or lost a topic gives back what it had.
func TestTopicsHaveABoundForAll(t *testing.T) {
	const names = 100
	long := func(first string) Topic { return update(first + strings.Repeat("x", names-1)) }
	h := NewHub(session.New(session.Config{Limits: limits.Limits{MaxSubscribedBytes: 10 * (topicBytes + names)}}))
	used := func(topics int) {
		t.Helper()
		require.Equal(t, topics*(topicBytes+names), h.core.Subscribed().Usage().Used)
	}
	f := joined(h, new(mailbox).post, nil, append(everyList, long("1"), long("2"), Topic{Extension, "x"}), nil)
	used(2)
	require.Empty(t, h.add(f, 100, long("1"), long("3")))
	used(3)
	_, there := h.remove(f, long("1"))
	require.True(t, there)
	used(2)
	ended, ok := h.replaceResources(f, []string{long("3").Name, long("4").Name, long("5").Name})
	require.Len(t, ended, 1)
	require.True(t, ok)
	used(3)
	task := Topic{Task, strings.Repeat("t", names)}
	g := joined(h, new(mailbox).post, nil, []Topic{task, task}, nil)
	used(4)

	reached := ""
	for first := 'a'; reached == ""; first++ {
		reached = h.add(f, 100, long(string(first)))
	}
	require.Equal(t, "max_subscribed_bytes", reached)
	many := func(first rune) (uris []string, topics []Topic) {
		for i := range rune(12) {
			uris, topics = append(uris, long(string(first+i)).Name), append(topics, long(string(first+i)))
		}
		return uris, topics
	}
	full := h.core.Subscribed().Usage().Used
	_, ok = h.replaceResources(f, []string{long("!").Name, long("?").Name})
	require.True(t, ok, "what it had is given back first")
	uris, topics := many('A')
	_, ok = h.replaceResources(f, uris)
	require.False(t, ok)
	require.LessOrEqual(t, h.core.Subscribed().Usage().Used, full)
	refused, ok := h.join(h.roomOf(h.core.Caller(nil)), new(mailbox).post, nil, topics, nil)
	require.False(t, ok)
	h.leave(refused)
	h.leave(f)
	used(1)
	h.leave(g)
	used(0)
	h.empty(t)
}

// A feed keeps no memory of topics that it has lost.
func TestTopicsShrink(t *testing.T) {
	h := testHub()
	var uris []string
	for i := range 1000 {
		uris = append(uris, fmt.Sprint("test://", i))
	}
	f := joined(h, new(mailbox).post, nil, nil, nil)
	_, ok := h.replaceResources(f, uris)
	require.True(t, ok)
	require.Equal(t, 1000, f.topics.most)
	for _, uri := range uris[:900] {
		_, there := h.remove(f, update(uri))
		require.True(t, there)
	}
	require.Less(t, f.topics.most, 250)
	require.Len(t, f.topics.others, 100)
	require.Len(t, h.leave(f), 100)
	h.empty(t)
}
