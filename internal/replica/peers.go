package replica

import "sync"

// maxPeers bounds the names that a replica remembers. Each restart of another replica is a further one.
const maxPeers = 1000

// peers are the names of replicas that have listened or sent something. Clients can make up names, and none of those is
// among them. Its zero value is ready to use. It is safe for concurrent use.
type peers struct {
	mu    sync.Mutex // guards the rest
	names map[string]struct{}
}

// add remembers a name. When there are too many, it forgets all others: they come again with what they send.
func (p *peers) add(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.names == nil || len(p.names) >= maxPeers {
		p.names = map[string]struct{}{}
	}
	p.names[name] = struct{}{}
}

func (p *peers) remove(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.names, name)
}

func (p *peers) has(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, has := p.names[name]
	return has
}
