package service

import (
	"cmp"
	"runtime"
	"runtime/debug"
	"strings"
)

// A Build describes the build of the running program. Fields that the Go tool did not record are
// empty.
type Build struct {
	Version  string // of the main module; "devel" if it has none
	Revision string // of the version control system
	Time     string // of the revision, RFC 3339
	Modified bool   // the working copy differed from the revision
	Go       string // version of Go
	Platform string // such as linux/amd64
}

// ReadBuild returns the build of the running program.
func ReadBuild() Build {
	b := Build{Version: "devel", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if v := strings.Trim(info.Main.Version, "()"); v != "" {
		b.Version = v
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

// String returns the build in one line.
func (b Build) String() string {
	text := cmp.Or(b.Version, "devel")
	if b.Revision != "" {
		text += " (" + strings.TrimSpace(b.Revision[:min(12, len(b.Revision))]+" "+b.Time)
		if b.Modified {
			text += ", modified"
		}
		text += ")"
	}
	return text + " " + b.Go + " " + b.Platform
}
