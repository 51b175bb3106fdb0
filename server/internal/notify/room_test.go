package notify

import (
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
	full := h.core.Subscribed().Usage().Used
	_, ok = h.replaceResources(f, append([]string{long("!").Name}, "test://a"))
	require.False(t, ok, "what it had is given back after that")

	refused, ok := h.join(h.roomOf(h.core.Caller(nil)), new(mailbox).post, nil, []Topic{long("6"), long("7"), long("8"), long("9"), long("0"), long("A"), long("B"), long("C"), long("D"), long("E")}, nil)
	require.False(t, ok)
	h.leave(refused)
	require.Less(t, h.core.Subscribed().Usage().Used, full)
	h.leave(f)
	used(1)
	h.leave(g)
	used(0)
	h.empty(t)
}
