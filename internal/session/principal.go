package session

// Bind binds the session to the principal of its first request, and reports whether
// this one is the same: an id that somebody else has got hold of is of no use to him.
func (s *Session) Bind(principal string) bool {
	if s.principal.CompareAndSwap(nil, &principal) {
		return true
	}
	return *s.principal.Load() == principal
}
