package rates

// A debt is what the store has yet to hear of a bucket. It must be guarded by the lock of its limiter. A nil
// debt is that of a bucket that no other replica has.
type debt struct {
	name string // of the bucket in the store, once it was asked
	// owed are tokens that were spent and not taken from the store. Below 0 are those that were taken and not
	// spent.
	owed    int
	waiting int           // messages that wait for the store
	settled chan struct{} // closed when the store was asked; nil if it is not being asked
	late    bool          // the bucket is in the list of those that are settled in a moment
}

// aheadShare is which part of its burst a replica may spend before the store has heard of it.
const aheadShare = 20

// ahead returns how many tokens a replica may owe.
func (r *limit) ahead() int { return r.buckets.burst / aheadShare }

// atLimit reports whether nothing more may be spent before the store was asked.
func (d *debt) atLimit(rule *limit) bool { return d != nil && d.owed >= rule.ahead() }

// open reports whether the store has to be told of the bucket.
func (d *debt) open() bool { return d != nil && (d.owed != 0 || d.waiting > 0 || d.settled != nil) }
