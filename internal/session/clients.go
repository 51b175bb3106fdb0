package session

import (
	"sync"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// maxClients and maxClientInfo bound the cache of clients, and the bytes of what it has of each.
const (
	maxClients    = 256
	maxClientInfo = 1 << 10
)

// clients caches the names and versions of modern clients, which come with each message. The plain
// version is the function ClientOf for each message that a policy decides about (BenchmarkCost of
// package server, with a policy).
type clients struct {
	mu    sync.RWMutex
	known map[string]client // by the JSON that the client sends
}

type client struct{ name, version string }

// ClientOf returns what the function [ClientOf] does, and remembers it.
func (c *Core) ClientOf(in *Inbound, s *Session) (name, version string) { return c.clients.of(in, s) }

func (c *clients) of(in *Inbound, s *Session) (name, version string) {
	info := in.Meta.ClientInfo
	switch {
	case in.Era != mcp.Modern, len(info) > maxClientInfo:
		return ClientOf(in, s)
	case len(info) == 0:
		return "", ""
	}
	c.mu.RLock()
	known, found := c.known[string(info)]
	c.mu.RUnlock()
	if !found {
		known.name, known.version = ClientOf(in, s)
		c.mu.Lock()
		if c.known == nil || len(c.known) >= maxClients {
			c.known = map[string]client{}
		}
		c.known[string(info)] = known
		c.mu.Unlock()
	}
	return known.name, known.version
}
