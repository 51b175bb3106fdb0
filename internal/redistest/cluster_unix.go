//go:build unix

package redistest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// allSlots is how many slots the keys and channels of a cluster have.
const allSlots = 16384

// A Cluster is a Redis Cluster whose masters share the slots.
type Cluster struct {
	Masters []*Server

	tb    testing.TB
	suite string
	flags []string
	nodes []*Server // the masters and the copies
}

// StartCluster runs so many masters without copies, with more flags of redis-server, and returns when they serve all slots.
func StartCluster(tb testing.TB, suite string, masters int, flags ...string) *Cluster {
	tb.Helper()
	c := &Cluster{tb: tb, suite: suite, flags: append([]string{"--cluster-enabled", "yes", "--repl-ping-replica-period", "1"}, flags...)}
	for i := range masters {
		s := Start(tb, suite, c.flags...)
		node := Dial(tb, s.Addr())
		node.Do(fmt.Sprint("CLUSTER SET-CONFIG-EPOCH ", i+1)) // each node needs another one
		node.Do(fmt.Sprintf("CLUSTER ADDSLOTSRANGE %d %d", i*allSlots/masters, (i+1)*allSlots/masters-1))
		c.Masters = append(c.Masters, s)
		c.join(s)
	}
	c.AwaitOK()
	return c
}

// join makes a server known to the other nodes.
func (c *Cluster) join(s *Server) {
	c.tb.Helper()
	node := Dial(c.tb, s.Addr())
	for _, other := range c.nodes {
		node.Do(fmt.Sprintf("CLUSTER MEET 127.0.0.1 %d", other.port))
	}
	c.nodes = append(c.nodes, s)
}

// AddCopy runs a replica of a master, and returns when it has the values of that.
func (c *Cluster) AddCopy(master *Server) *Server {
	c.tb.Helper()
	s := Start(c.tb, c.suite, c.flags...)
	c.join(s)
	c.AwaitOK()
	Dial(c.tb, s.Addr()).Do("CLUSTER REPLICATE " + id(c.tb, master))
	c.AwaitCopy(s, master)
	return s
}

// AwaitCopy waits until a server has the values of a master, and all nodes know that it copies that.
func (c *Cluster) AwaitCopy(s, master *Server) {
	c.tb.Helper()
	node := Dial(c.tb, s.Addr())
	await(c.tb, "copy of a master", func() bool {
		info := node.Do("INFO replication")[0]
		return strings.Contains(info, fmt.Sprintf("master_port:%d\r\n", master.port)) && strings.Contains(info, "master_link_status:up")
	})
	c.awaitAll("node that tells clients of a copy", func(node *Shell) bool { // it does so when the copy has read something
		return strings.Contains(strings.Join(node.Do("CLUSTER REPLICAS "+id(c.tb, master)), "\n"), s.Addr()+"@") &&
			slices.Contains(node.Do("CLUSTER SLOTS"), fmt.Sprint(s.port))
	})
}

// Replace has a copy take the place of its master. A master that runs becomes the copy. It returns when all nodes that
// run know that.
func (c *Cluster) Replace(master, by *Server) {
	c.tb.Helper()
	Dial(c.tb, by.Addr()).Do("CLUSTER FAILOVER TAKEOVER") // the other masters would vote for a copy once in half a minute
	c.Masters[slices.Index(c.Masters, master)] = by
	c.awaitAll("copy in the place of its master", func(node *Shell) bool { return strings.Contains(owners(node)[by.Addr()], "-") })
	if master.cmd != nil {
		c.AwaitCopy(master, by)
	}
}

// Move gives the slot of a key or channel to another master. The slot must have no values. It returns when all nodes
// know that.
func (c *Cluster) Move(key string, to *Server) {
	c.tb.Helper()
	from := c.Owner(key)
	slot := Dial(c.tb, to.Addr()).Number("CLUSTER KEYSLOT " + key)
	set := func(at *Server, how string, other *Server) {
		Dial(c.tb, at.Addr()).Do(fmt.Sprintf("CLUSTER SETSLOT %d %s %s", slot, how, id(c.tb, other)))
	}
	set(to, "IMPORTING", from)
	set(from, "MIGRATING", to)
	set(to, "NODE", to)
	set(from, "NODE", to)
	c.awaitAll("node that knows where a slot is", func(node *Shell) bool { return owner(node, slot) == to.Addr() })
}

// Owner returns the master that has the slot of a key or channel.
func (c *Cluster) Owner(key string) *Server {
	c.tb.Helper()
	node := Dial(c.tb, c.Masters[0].Addr())
	addr := owner(node, node.Number("CLUSTER KEYSLOT "+key))
	for _, s := range c.nodes {
		if s.Addr() == addr {
			return s
		}
	}
	c.tb.Fatalf("no node has the slot of %s", key)
	return nil
}

// id returns the name of a node.
func id(tb testing.TB, s *Server) string {
	tb.Helper()
	return Dial(tb, s.Addr()).Do("CLUSTER MYID")[0]
}

// owners returns what a node says: the slots of each address, such as "0-5460 5462".
func owners(node *Shell) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(node.Do("CLUSTER NODES")[0]) {
		fields := strings.Fields(line) // id, address, flags, master, ping, pong, epoch, link, and slots
		addr, _, _ := strings.Cut(fields[1], "@")
		all[addr] = strings.Join(fields[min(8, len(fields)):], " ")
	}
	return all
}

// owner returns the address that has a slot, as a node says.
func owner(node *Shell, slot int) string {
	for addr, all := range owners(node) {
		for _, text := range strings.Fields(all) {
			var from, to int
			n, _ := fmt.Sscanf(text, "%d-%d", &from, &to)
			if n == 2 && from <= slot && slot <= to || n == 1 && slot == from { // other texts are slots that move
				return addr
			}
		}
	}
	return ""
}

// awaitAll waits until all nodes that run pass a check.
func (c *Cluster) awaitAll(what string, check func(*Shell) bool) {
	c.tb.Helper()
	for _, s := range c.nodes {
		if s.cmd == nil {
			continue
		}
		node := Dial(c.tb, s.Addr())
		await(c.tb, what, func() bool { return check(node) })
	}
}

// AwaitOK waits until all nodes that run know each other, and serve all slots.
func (c *Cluster) AwaitOK() {
	c.tb.Helper()
	want := []string{"cluster_state:ok", fmt.Sprintf("cluster_known_nodes:%d\r\n", len(c.nodes)), fmt.Sprintf("cluster_slots_ok:%d\r\n", allSlots)}
	c.awaitAll("cluster that serves all slots", func(node *Shell) bool {
		info := node.Do("CLUSTER INFO")[0]
		return !slices.ContainsFunc(want, func(text string) bool { return !strings.Contains(info, text) })
	})
}

// Addrs returns the hosts and ports of the masters.
func (c *Cluster) Addrs() (all []string) {
	for _, s := range c.Masters {
		all = append(all, s.Addr())
	}
	return all
}

// URL is that of a store there, without options but the addresses of the masters.
func (c *Cluster) URL() string {
	return "redis+cluster://" + c.Masters[0].Addr() + "?addr=" + strings.Join(c.Addrs(), "&addr=")
}
