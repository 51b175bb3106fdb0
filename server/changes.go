package server

// A change is something that subscribers want to know.
type change struct {
	kind changeKind
	uri  string // of a resource that was updated
}

type changeKind uint8

const (
	toolsChanged changeKind = iota
	promptsChanged
	resourcesChanged
	resourceUpdated
)

// changed tells those who have subscribed.
func (s *Server) changed(change) {}
