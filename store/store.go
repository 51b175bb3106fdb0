package store

// A Store is what the replicas of a server share (server.WithStore). package redisstore makes one of a
// Redis server. The zero value shares nothing.
type Store struct {
	Values  Values
	Signals Signals
	// Events keeps what legacy clients can resume. nil: each replica keeps its own.
	Events EventLog
	// Buckets keep the tokens of rate limits. nil: each replica has its own.
	Buckets Buckets
}

// Shared reports whether the replicas share anything.
func (s Store) Shared() bool { return s.Values != nil && s.Signals != nil }
