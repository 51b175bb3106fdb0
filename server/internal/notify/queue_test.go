package notify

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func update(uri string) Topic { return Topic{Resource, uri} }

// plain is a notification that says no more than that a thing has changed.
func plain(t Topic) Notification { return Notification{Topic: t} }

func topicsIn(all []Notification) (list []Topic) {
	for _, n := range all {
		list = append(list, n.Topic)
	}
	return list
}

// A topic is in the queue once, in the order in which it came first. Lists come first.
func TestLatestKeepsOneChangeOfATopic(t *testing.T) {
	var p latest
	for _, uri := range []string{"a", "b", "a", "c", "b"} {
		require.True(t, p.add(plain(update(uri)), update(uri), 0))
	}
	for _, kind := range []Kind{Resources, Tools, Tools} {
		require.True(t, p.add(plain(Topic{Kind: kind}), Topic{Kind: kind}, 0))
	}
	p.add(plain(Topic{Task, "a"}), Topic{Task, "a"}, 0) // of another kind
	require.False(t, p.empty())
	require.Equal(t, []Topic{{Kind: Tools}}, topicsIn(p.take(nil, 1)))
	require.Equal(t, []Topic{{Kind: Resources}, update("a"), update("b")}, topicsIn(p.take(nil, 3)))
	p.add(plain(update("a")), update("a"), 0) // again: it was taken
	require.Equal(t, []Topic{update("c"), {Task, "a"}, update("a")}, topicsIn(p.take(nil, 16)))
	require.Empty(t, topicsIn(p.take(nil, 16)))
	require.Equal(t, latest{}, p, "an empty one holds no memory")
}

// Beyond the limit the whole resource is queued instead of its parts, and nothing is lost.
func TestLatestBeyondTheLimitKeepsTheWholeResource(t *testing.T) {
	var p latest
	for i := range 5 {
		part := update(fmt.Sprint("dir/", i))
		require.Equal(t, i < 2, p.add(plain(part), update("dir"), 2), i)
	}
	require.True(t, p.add(plain(update("dir/1")), update("dir"), 2), "it is remembered already")
	require.True(t, p.add(plain(update("other")), update("other"), 2), "what was asked for has room")
	require.True(t, p.add(plain(Topic{Kind: Tools}), Topic{Kind: Tools}, 2), "and so have lists")
	require.Equal(t, []Topic{{Kind: Tools}, update("dir/0")}, topicsIn(p.take(nil, 2)))
	require.True(t, p.add(plain(update("dir/9")), update("dir"), 2), "there is room again")
	require.Equal(t, []Topic{update("dir/1"), update("dir"), update("other"), update("dir/9")}, topicsIn(p.take(nil, 16)))
	require.Equal(t, latest{}, p)
}

func TestTopicsOfAPart(t *testing.T) {
	for uri, want := range map[string][]string{
		"test://a":           {"test://a", "test://", "test:/", "test:"},
		"test://a/":          {"test://a/", "test://a", "test://", "test:/", "test:"},
		"test://a/b":         {"test://a/b", "test://a/", "test://a", "test://", "test:/", "test:"},
		"test://a/b?c=d/e#f": {"test://a/b?c=d/e#f", "test://a/b?c=d/e", "test://a/b?c=d/", "test://a/b?c=d", "test://a/b", "test://a/", "test://a", "test://", "test:/", "test:"},
		"urn:isbn:1":         {"urn:isbn:1"},
		"":                   {""},
		"/":                  {"/"},
	} {
		var got []string
		update(uri).Wholes(func(c Topic) bool {
			require.Equal(t, Resource, c.Kind)
			got = append(got, c.Name)
			return true
		})
		require.Equal(t, want, got, uri)
	}
	Topic{Task, "a/b"}.Wholes(func(c Topic) bool {
		require.Equal(t, "a/b", c.Name, "a task has no parts")
		return true
	})
}
