package session

import (
	"cmp"
	"slices"
	"time"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// A SharedState is what the replicas share of a session. A higher revision replaces a lower one.
type SharedState struct {
	Revision uint64 `json:"revision"`
	// Lineage is a random name that a session gets with the first state that the store has of it. Another one says that
	// the store has lost all earlier states. It is "" if an earlier release has written the state.
	Lineage string `json:"lineage,omitempty"`
	// Changed is when a client has last set anything, by the clock of the replica where it did, in ms since 1970.
	Changed int64 `json:"changed,omitempty"`
	// Ended says that its client has deleted it, or an operator has ended it.
	Ended bool `json:"ended,omitempty"`
	// Through is where it was ended. It may be nil.
	Through *Through `json:"through,omitempty"`
	// By is the [share.Key.Fingerprint] of the caller whose share of the deletions that replicas remember it is.
	By uint64 `json:"by,omitempty"`
	// LogLevel is the level that its client has set, or "".
	LogLevel mcp.LoggingLevel `json:"logLevel,omitempty"`
	// Resources are the URIs that its client has subscribed to.
	Resources []string `json:"resources,omitempty"`
	// Streams says where the session's own stream is, the latest one last.
	Streams []OwnStream `json:"streams,omitempty"`
}

// A SharedSession is one that other replicas may serve, too.
type SharedSession struct {
	ID   string // the inner one
	Ends time.Time
}

// sharedState returns the latest state that a session shares with other replicas. Its streams are those of the others.
func (st *state) sharedState() (known SharedState) {
	if st.shared != nil {
		known = *st.shared
	}
	return known
}

// hasLost reports whether a store that has this state has lost the known one.
func (st *SharedState) hasLost(known SharedState) bool {
	if st.isOther(known) || st.Revision < known.Revision {
		return true
	}
	return st.Revision == known.Revision && (st.LogLevel != known.LogLevel || !slices.Equal(st.Resources, known.Resources))
}

// isOther reports whether a state is of another lineage.
func (st *SharedState) isOther(known SharedState) bool {
	return st.Lineage != known.Lineage && st.Lineage != "" && known.Lineage != ""
}

// restore puts back what the store has lost. If nobody has set anything since, the state is an earlier one, or empty.
// Otherwise what was set last counts, and subscriptions of both: ones that a client has ended since the loss may begin again.
func (st *SharedState) restore(known SharedState) {
	if !st.hasLost(known) {
		return
	}
	switch later := st.Changed > known.Changed || st.Changed == known.Changed && st.isOther(known); {
	case !later && !st.isOther(known):
		st.LogLevel, st.Resources = known.LogLevel, slices.Clone(known.Resources)
	case later:
		st.LogLevel = cmp.Or(st.LogLevel, known.LogLevel)
	default:
		st.LogLevel = cmp.Or(known.LogLevel, st.LogLevel)
	}
	for _, uri := range known.Resources {
		if !slices.Contains(st.Resources, uri) {
			st.Resources = append(st.Resources, uri)
		}
	}
	st.Revision, st.Changed = max(st.Revision, known.Revision), max(st.Changed, known.Changed)
	var older []OwnStream
	for _, own := range known.Streams {
		if st.ownOf(own.Replica) < 0 {
			older = append(older, own)
		}
	}
	st.Streams = append(older, st.Streams...)
	st.Streams = st.Streams[max(0, len(st.Streams)-maxOwnStreams):]
}
