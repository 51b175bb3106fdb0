// Package era is where what the server says takes the form of its reader's revision:
// how results are encoded, which words a question and an error have, and what a client
// has declared. Nothing else of the server asks in which era its caller speaks.
package era

import (
	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A Set is a set of eras.
type Set uint8

const (
	Legacy Set = 1 << mcp.Legacy
	Modern Set = 1 << mcp.Modern
	Both       = Legacy | Modern
)

// Has reports whether an era is in the set.
func (s Set) Has(e mcp.Era) bool { return s&(1<<e) != 0 }

// CheckVersion returns the error for a modern request of a revision that is not served
// statelessly, or nil.
func CheckVersion(v mcp.Version) *mcp.Error {
	if era, known := v.Era(); known && era == mcp.Modern {
		return nil
	}
	return mcp.NewError(mcp.CodeUnsupportedVersion, "unsupported protocol version").WithData(
		mcp.UnsupportedVersionData{Supported: mcp.Versions(mcp.Modern), Requested: logline.Printable(string(v), 64)})
}
