package session

import "slices"

// An OwnStream says that a replica has the session's own stream.
type OwnStream struct {
	Replica string `json:"replica"`
	// Read: the client reads the stream. Otherwise it may resume it, and gets then what was stored meanwhile.
	Read bool `json:"read,omitempty"`
}

// maxOwnStreams bounds the own streams that the replicas know of a session: the latest ones.
const maxOwnStreams = 16

// An ownPlace is a replica with an own stream, by the shared state with a revision. The zero value is none.
type ownPlace struct {
	replica  string
	revision uint64
}

// ownOf returns the index of the own stream of a replica, or -1.
func (st *SharedState) ownOf(replica string) int {
	return slices.IndexFunc(st.Streams, func(own OwnStream) bool { return own.Replica == replica })
}

// othersOwn returns the own streams of other replicas.
func (st *SharedState) othersOwn(replica string) (all []OwnStream) {
	for _, own := range st.Streams {
		if own.Replica != replica {
			all = append(all, own)
		}
	}
	return all
}

// removeOwn forgets the own stream of a replica.
func (st *SharedState) removeOwn(replica string) {
	st.Streams = slices.DeleteFunc(st.Streams, func(own OwnStream) bool { return own.Replica == replica })
}

// placeOf returns the other replica with the latest own stream. read asks for one that the client reads.
func (st *state) placeOf(read bool) ownPlace {
	shared := st.sharedState()
	for _, own := range slices.Backward(shared.Streams) {
		p := ownPlace{own.Replica, shared.Revision}
		if (own.Read || !read) && !slices.Contains(st.refused, p) {
			return p
		}
	}
	return ownPlace{}
}
