//go:build unix

package redisstore_test

import (
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/redistest"
	"github.com/vitrine-mcp/vitrine/store"
	"github.com/vitrine-mcp/vitrine/store/redisstore"
	"github.com/vitrine-mcp/vitrine/store/storetest"
)

// signals is a name in the slot of the channels of a store whose URL has no prefix.
const signals = "{vitrine:}"

func TestConformanceWithCluster(t *testing.T) {
	t.Parallel()
	servers := redistest.StartCluster(t, suite, 3)
	url := servers.URL() + "&prefix=test:"
	require.NoError(t, useAll(t, open(t, url)))
	storetest.Values(t, func(t *testing.T) store.Values { return open(t, url) }, time.Sleep)
	signals := func(t *testing.T) store.Signals { return open(t, url) }
	storetest.Signals(t, signals)
	owner := servers.Owner("{test:}")
	storetest.Missed(t, signals, owner.Kill, owner.Start)
	servers.AwaitOK()
	storetest.Events(t, func(t *testing.T) store.EventLog { return open(t, url) }, time.Sleep)
	storetest.Buckets(t, func(t *testing.T) store.Buckets { return open(t, url) }, time.Sleep)
}

// Of a cluster a sender knows whether anybody listens, however listeners and senders choose their servers.
func TestPublishToNobodyOfACluster(t *testing.T) {
	t.Parallel()
	servers := redistest.StartCluster(t, suite, 3)
	servers.AddCopy(servers.Owner(signals))
	for _, options := range []string{"", "&read_only=true", "&route_randomly=true", "&prefix=", "&prefix=}{"} {
		t.Run(options, func(t *testing.T) {
			for range 5 { // one may choose the right server by chance
				a, b := open(t, servers.URL()+options), open(t, servers.URL()+options)
				require.ErrorIs(t, a.Publish(t.Context(), "a", nil), store.ErrNoReceiver)
				e := listen(t, b, "a", "b")
				publish(t, a, "a", "1")
				require.Equal(t, "a:1", <-e.got)
				publish(t, b, "b", "2")
				require.Equal(t, "b:2", <-e.got)
				require.ErrorIs(t, a.Publish(t.Context(), "c", nil), store.ErrNoReceiver)
				require.Empty(t, e.missed)
				require.NoError(t, b.Close())
			}
		})
	}
}

// Another server gets the channels, in each way that a cluster has. A listener is told that it may have missed messages,
// and then hears again. A sender knows that, also one that has not heard of the other server. No client learns by chance
// what the cluster has become.
func TestClusterMovesTheChannels(t *testing.T) {
	t.Parallel()
	servers := redistest.StartCluster(t, suite, 3)
	first := servers.Owner(signals)
	copied := servers.AddCopy(first)
	connect := func() *redisstore.Store {
		client := redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: servers.Addrs(), ContextTimeoutEnabled: true, ClusterStateReloadInterval: time.Hour,
		})
		t.Cleanup(func() { client.Close() })
		return redisstore.New(client, redisstore.DefaultPrefix)
	}
	sender, idle, listener := connect(), connect(), connect()
	e := listen(t, listener, "a", "b")
	heard := func(by *redisstore.Store, what string) {
		t.Helper()
		require.Eventually(t, func() bool { return by.Publish(t.Context(), "a", []byte(what)) == nil }, time.Minute, 10*time.Millisecond)
		for got := ""; got != "a:"+what; { // that of a try before may come, too
			got = <-e.got
		}
	}
	heard(sender, "before")
	heard(idle, "before")
	for _, c := range []struct {
		name string
		do   func()
	}{
		{"its copy takes the place of the server", func() { servers.Replace(first, copied) }},
		{"the slot moves", func() {
			servers.Move(signals, servers.Masters[(slices.Index(servers.Masters, copied)+1)%3])
		}},
		{"the slot moves back", func() { servers.Move(signals, copied) }},
		{"the server dies, and its copy takes its place", func() {
			copied.Kill()
			servers.Replace(copied, first)
		}},
		{"it is back, and takes its place again", func() {
			copied.Start()
			servers.AwaitCopy(copied, first)
			servers.Replace(first, copied)
		}},
	} {
		require.Empty(t, e.missed, c.name)
		settled := connect() // does not ask for the servers at the moment, as one may that has just had to
		heard(settled, "before "+c.name)
		c.do()
		require.Eventually(t, func() bool { return len(e.missed) > 0 }, time.Minute, 10*time.Millisecond, c.name)
		<-e.missed
		heard(sender, c.name)
		heard(settled, c.name+", and the sender has known the servers")
		heard(connect(), c.name+", and the sender has just come")
		require.ErrorIs(t, sender.Publish(t.Context(), "nobody", nil), store.ErrNoReceiver, c.name)
	}
	heard(idle, "after all")
	require.Empty(t, e.missed)
}

// A cluster whose servers have no sharded channels is refused, and the error says what is wrong.
func TestClusterWithoutShardedChannels(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"ssubscribe", "spublish"} {
		s := open(t, redistest.StartCluster(t, suite, 1, "--rename-command", command, "old-"+command).URL())
		const want = "the cluster has no sharded channels, and must run Redis 7.0 or later, or Valkey: ERR unknown command"
		require.ErrorContains(t, s.Check(t.Context()), want)
		require.NotErrorIs(t, s.Check(t.Context()), redisstore.ErrEvicts)
		err := s.Listen(t.Context(), []string{"a"}, nil, nil)
		if command == "spublish" {
			err = s.Publish(t.Context(), "a", nil)
		}
		require.ErrorContains(t, err, want)
	}
}

// The user of docs/replicas.md for a cluster can do all that the store does, and needs each right.
func TestDocumentedUserOfACluster(t *testing.T) {
	t.Parallel()
	servers := redistest.StartCluster(t, suite, 1)
	client := dial(t, servers.Masters[0].Addr())
	rights := documentedUser(t, 1)
	for i := range len(rights) + 1 {
		args := []any{"acl", "setuser", "vitrine", "reset"}
		for j, right := range rights {
			if j != i {
				args = append(args, right)
			}
		}
		require.NoError(t, client.Do(t.Context(), args...).Err())
		require.NoError(t, client.FlushAll(t.Context()).Err())
		require.NoError(t, client.ScriptFlush(t.Context()).Err())
		err := useAll(t, open(t, "redis+cluster://vitrine:secret@"+servers.Masters[0].Addr()))
		if i == len(rights) {
			require.NoError(t, err)
		} else {
			require.Error(t, err, rights[i])
			require.Regexp(t, "NOPERM|WRONGPASS|user executing the script can't run this command", err.Error(), rights[i])
		}
	}
}
