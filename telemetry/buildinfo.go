package telemetry

import "runtime/debug"

// build describes the binary.
type build struct{ version, revision, goVersion string }

// readBuild returns the version of Vitrine in this binary, and the revision of
// the main module.
func readBuild() build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return build{version: "unknown", revision: "unknown", goVersion: "unknown"}
	}
	b := build{version: info.Main.Version, revision: "unknown", goVersion: info.GoVersion}
	for _, dep := range info.Deps {
		if dep.Path == scopeName {
			b.version = dep.Version
		}
	}
	if b.version == "" {
		b.version = "(devel)"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			b.revision = s.Value
		}
	}
	return b
}
