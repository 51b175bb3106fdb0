package service

import (
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/vitrine-mcp/vitrine/internal/logline"
)

// announce tells the addresses of the process. With JSON logs it writes a log record, otherwise a
// text for people with a configuration for clients.
func (p *process) announce() {
	e := Endpoints{Admin: p.admin.url()}
	if p.mcp != nil {
		e.MCP = p.mcp.url() + p.cfg.Path
	}
	if p.cfg.LogFormat == "json" {
		slog.Info("service.ready", "name", p.srv.Info().Name, "version", p.srv.Info().Version,
			"build", ReadBuild().String(), "mcp", e.MCP, "admin", e.Admin, "stdio", p.cfg.Stdio)
	} else {
		fmt.Fprint(logline.Text(p.stderr), p.banner(e))
	}
	p.listening(e)
}

func (p *process) banner(e Endpoints) string {
	info := p.srv.Info()
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s is ready\n", info.Name, info.Version)
	if e.MCP != "" {
		fmt.Fprintf(&b, "  mcp       %s\n", e.MCP)
	} else {
		b.WriteString("  mcp       on standard input and output\n")
	}
	if e.Admin != "" {
		fmt.Fprintf(&b, "  console   %s/\n", e.Admin)
		fmt.Fprintf(&b, "  metrics   %s/metrics\n", e.Admin)
		fmt.Fprintf(&b, "  health    %s/livez  %s/readyz\n", e.Admin, e.Admin)
		fmt.Fprintf(&b, "  requests  %s/debug/requests\n", e.Admin)
		fmt.Fprintf(&b, "  profiles  %s/debug/pprof/\n", e.Admin)
	}
	fmt.Fprintf(&b, "client configuration:\n%s\n", p.clientConfig(e))
	return b.String()
}

// clientEntry is the entry of a server in the configurations of clients.
type clientEntry struct {
	Type    string   `json:"type,omitempty"`
	URL     string   `json:"url,omitempty"`
	Command string   `json:"command,omitempty"`
	Args    []string `json:"args,omitempty"`
}

// goRunFolder is a part of the path of programs that go run builds.
const goRunFolder = "go-build"

// clientConfig returns the JSON of the client configuration for this server.
func (p *process) clientConfig(e Endpoints) string {
	entry := clientEntry{Type: "http", URL: e.MCP}
	if e.MCP == "" {
		command, err := os.Executable()
		if err != nil || strings.Contains(command, goRunFolder) {
			command = p.program() // go run removes its file, so the path would not work later
		}
		entry = clientEntry{Command: command, Args: append(strings.Fields(p.command)[1:], p.args...)}
	}
	text, err := json.Marshal(map[string]map[string]clientEntry{"mcpServers": {p.srv.Info().Name: entry}})
	if err != nil {
		return err.Error()
	}
	return string(text)
}

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
