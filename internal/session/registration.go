package session

import "time"

// A RegistrationInfo counts the changes of one item of the server around the core, or of its policies. The core has no part
// in it: it is in the snapshot for those who read that.
type RegistrationInfo struct {
	Kind, Name string
	// Added counts additions after the item was removed, Equal the replacements that lists do not show.
	Added, Replaced, Equal, Removed uint64
	Updated                         uint64    // how often the program has said that the resource has changed, if there may be subscribers
	Last                            time.Time // the last change
	Place                           string    // the file and line that has made it
}

// A ListChange is a kind of items and what happened to one of them.
type ListChange struct{ Kind, Change string }

// The changes that lists show.
const (
	ListAdded    = "added"
	ListReplaced = "replaced" // by another definition
	ListRemoved  = "removed"
	ListPolicies = "policies" // others may see its items now
)

// ListChanges lists these changes. The caller owns the slice.
func ListChanges() []string { return []string{ListAdded, ListReplaced, ListRemoved, ListPolicies} }
