package session

import "time"

// A ReplicaInfo is what a replica says of itself. Replicas of other releases read it.
type ReplicaInfo struct {
	Replica  string    `json:"replica"` // its random name among them
	Host     string    `json:"host"`    // the name of its machine, as the system has it
	Process  int       `json:"process"`
	Version  string    `json:"version"` // of the program
	Started  time.Time `json:"started"`
	Draining bool      `json:"draining,omitzero"`
	InFlight int       `json:"inFlight"` // requests, with subscriptions
	Sessions int       `json:"sessions"` // that it has objects of: of a session with a sealed id there may be several
	Tasks    int       `json:"tasks"`    // whose handlers run there
	// AwayFor is for how long the store has not answered it, in seconds.
	AwayFor float64 `json:"awayFor,omitzero"`
}

// Load adds what the core has now.
func (c *Core) Load(info *ReplicaInfo) {
	info.Draining, info.InFlight, info.Tasks = c.Draining(), c.Pending(), len(live[*Detached](c.ledger))
	c.mu.Lock()
	info.Sessions = len(c.sessions)
	c.mu.Unlock()
}
