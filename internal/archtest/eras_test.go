package archtest

import (
	"regexp"
	"strings"
	"testing"
)

// A feature must not know in which era its caller speaks: that is for the packages that
// speak to clients of each (server/internal/era and server/internal/ask), and for the two
// files that decide it (dispatch.go) or perform the handshake (handshake.go).
var eraWord = regexp.MustCompile(`\bmcp\.(Legacy|Modern|Version2\d+|LatestLegacyVersion)\b|\.Era\(\)|\.Era\b|\.AtLeast\(`)

// eraFaults returns the lines of a file of package server, and of those below it, that ask
// for the era.
func eraFaults(name string, text []byte) (faults []string) {
	if !under(name, "server") || strings.HasSuffix(name, "_test.go") || under(name, "server/servertest") ||
		under(name, "server/internal/era") || under(name, "server/internal/ask") ||
		name == "server/dispatch.go" || name == "server/handshake.go" {
		return nil
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		code, _, _ := strings.Cut(line, "//")
		if eraWord.MatchString(code) {
			faults = append(faults, name+": "+strings.TrimSpace(line)+": only server/internal/era asks for the era")
		}
	}
	return faults
}

func TestFeaturesDoNotKnowTheEra(t *testing.T) {
	for name, text := range goFiles(t) {
		for _, fault := range eraFaults(name, text) {
			t.Error(fault)
		}
	}
}

// The rule finds each fault.
func TestEraFaults(t *testing.T) {
	for _, c := range []struct {
		name, text string
		faults     int
	}{
		{"server/tools.go", "if call.Era() == mcp.Legacy {", 1},
		{"server/tools.go", "if v.AtLeast(mcp.Version20250326) {\n}\nif in.Era == 1 {", 2},
		{"server/tools.go", "eras: inLegacy // not mcp.Legacy", 0},
		{"server/internal/task/run.go", "if call.Era() == mcp.Legacy {", 1},
		{"server/internal/era/encode.go", "if call.Era() == mcp.Legacy {", 0},
		{"server/internal/ask/legacy.go", "if call.Era() == mcp.Legacy {", 0},
		{"server/dispatch.go", "if call.Era() == mcp.Legacy {", 0},
		{"server/tools_test.go", "if call.Era() == mcp.Legacy {", 0},
		{"transport/http.go", "if call.Era() == mcp.Legacy {", 0},
	} {
		if faults := eraFaults(c.name, []byte(c.text)); len(faults) != c.faults {
			t.Errorf("%s: %q: %q", c.name, c.text, faults)
		}
	}
}
