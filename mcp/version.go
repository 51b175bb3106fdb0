package mcp

// A Version is a protocol revision, named by its date.
type Version string

// The protocol revisions that Vitrine speaks.
const (
	Version20260728 Version = "2026-07-28"
	Version20251125 Version = "2025-11-25"
	Version20250618 Version = "2025-06-18"
	Version20250326 Version = "2025-03-26"
	Version20241105 Version = "2024-11-05"

	LatestVersion       = Version20260728
	LatestLegacyVersion = Version20251125
)

// Versions lists the supported revisions of one era, newest first. The caller
// owns the slice.
func Versions(era Era) []Version {
	if era == Modern {
		return []Version{Version20260728}
	}
	return []Version{Version20251125, Version20250618, Version20250326, Version20241105}
}

// Era returns the era of v, and whether v is a supported revision.
func (v Version) Era() (era Era, supported bool) {
	switch v {
	case Version20260728:
		return Modern, true
	case Version20251125, Version20250618, Version20250326, Version20241105:
		return Legacy, true
	}
	return Legacy, false
}

// AtLeast reports whether v is w or a later revision. Revisions are dates, so
// they order as strings.
func (v Version) AtLeast(w Version) bool { return v >= w }

// An Era is a family of protocol revisions that share their life cycle.
type Era uint8

const (
	// Legacy is 2024-11-05 to 2025-11-25: an initialize handshake, sessions, and
	// requests in both directions.
	Legacy Era = iota
	// Modern is 2026-07-28 and later: no handshake and no sessions; every request
	// is self-contained and the server never sends a request.
	Modern
)

// String returns "legacy" or "modern".
func (e Era) String() string {
	if e == Modern {
		return "modern"
	}
	return "legacy"
}
