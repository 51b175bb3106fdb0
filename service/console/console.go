// Package console has the page of the admin listener, which shows the requests in flight and the
// latest ended ones. Its HTML, styles and scripts are in the binary. The page loads nothing from
// other hosts. It reads its data from /debug/live, /debug/traces and /debug/changes.
package console

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html"
	"io/fs"
	"net/http"
	"path"
	"strings"
)

//go:embed assets
var assets embed.FS

// Prefix is the path of the page's files, which [Console.ServeAsset] serves.
const Prefix = "/console/"

// policy allows the page to load files from its own host only.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// A Page describes the process for the console.
type Page struct {
	Name, Version, Build string
	// JaegerURL is the address of the Jaeger page, without a slash at the end, or "".
	JaegerURL string
	// PrometheusURL is that of the Prometheus page.
	PrometheusURL string
	// Links are paths of further pages of the admin listener, such as "/flags".
	Links []string
}

// A Console serves the page. It is safe for concurrent use.
type Console struct {
	index []byte
	files map[string]file
}

type file struct {
	name string // in the binary
	etag string
}

// New makes the page. It fails only if files are missing in the binary.
func New(page Page) (*Console, error) {
	text, err := assets.ReadFile("assets/index.html")
	if err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	c := &Console{index: []byte(page.fill(string(text))), files: map[string]file{}}
	err = fs.WalkDir(assets, "assets", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Base(name) == "index.html" {
			return err
		}
		text, err := assets.ReadFile(name)
		sum := sha256.Sum256(text)
		c.files[path.Base(name)] = file{name, `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`}
		return err
	})
	return c, err
}

// fill replaces the fields in double braces. They are between tags or in quoted attributes. It does
// not use html/template, which calls methods by name. The linker would then keep every exported
// method of every type, which is a sixth of the program.
func (p Page) fill(text string) string {
	return strings.NewReplacer(
		"{{.Name}}", html.EscapeString(p.Name),
		"{{.Version}}", html.EscapeString(p.Version),
		"{{.Build}}", html.EscapeString(p.Build),
		"{{.JaegerURL}}", html.EscapeString(p.JaegerURL),
		"{{.PrometheusURL}}", html.EscapeString(p.PrometheusURL),
		"{{.Links}}", p.links(),
	).Replace(text)
}

// links returns the links of the page. They are relative, so that a proxy may serve the page below
// another path.
func (p Page) links() string {
	var b strings.Builder
	for _, path := range p.Links {
		path = strings.TrimPrefix(path, "/")
		fmt.Fprintf(&b, "\n    <a href=\"./%s\">%s</a>", html.EscapeString(path), html.EscapeString(path))
	}
	return b.String()
}

// ServeIndex serves the page itself.
func (c *Console) ServeIndex(w http.ResponseWriter, _ *http.Request) {
	secure(w)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(c.index) // an error means that the client has gone away
}

// ServeAsset serves the files of the page, below [Prefix].
func (c *Console) ServeAsset(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, Prefix)
	f, ok := c.files[name]
	if !ok {
		http.NotFound(w, r)
		return
	}
	secure(w)
	w.Header().Set("Cache-Control", "no-cache") // another build has other files
	w.Header().Set("ETag", f.etag)
	w.Header().Set("Content-Type", contentTypes[path.Ext(name)])
	http.ServeFileFS(w, r, assets, f.name)
}

// contentTypes does not depend on the types of the machine.
var contentTypes = map[string]string{
	".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
}

func secure(w http.ResponseWriter) {
	w.Header().Set("Content-Security-Policy", policy)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.Header().Set("Cross-Origin-Opener-Policy", "same-origin")
}
