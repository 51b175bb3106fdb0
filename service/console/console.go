// Package console is the page of the admin listener: what the server is doing, and what
// has become of its latest requests. It is HTML, styles and scripts in the binary; the
// page asks no other host for anything, and reads what it shows from /debug/live and
// /debug/traces.
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

// Prefix is the path below which the page's own files are, as [Console.ServeAsset] serves
// them.
const Prefix = "/console/"

// policy lets the page load its own files and read its own host, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// A Page is what the console says of the process.
type Page struct {
	Name, Version, Build string
	// JaegerURL is where traces can be looked at, without a slash at the end; "" is nowhere.
	JaegerURL string
	// Links are paths of further pages of the admin listener, such as "/flags".
	Links []string
}

// A Console serves the page. Its methods may be called from any goroutine.
type Console struct {
	index []byte
	files map[string]file
}

type file struct {
	name string // in the binary, which has it in memory already
	etag string
}

// New makes the page. It fails only if the binary was built from files that do not fit
// together.
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

// fill fills in what stands in double braces, which is between tags or in the quotes of
// an attribute. html/template would do it too, but it calls methods by name, and the
// linker must then keep every exported method of every type: a sixth of the program.
func (p Page) fill(text string) string {
	return strings.NewReplacer(
		"{{.Name}}", html.EscapeString(p.Name),
		"{{.Version}}", html.EscapeString(p.Version),
		"{{.Build}}", html.EscapeString(p.Build),
		"{{.JaegerURL}}", html.EscapeString(p.JaegerURL),
		"{{.Links}}", p.links(),
	).Replace(text)
}

// links returns the links of the page, relative as the others, so that a proxy may serve it
// below a path of its own.
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
	_, _ = w.Write(c.index) // an error is the reader's going away
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
	w.Header().Set("Cache-Control", "no-cache") // another build has others
	w.Header().Set("ETag", f.etag)
	w.Header().Set("Content-Type", contentTypes[path.Ext(name)])
	http.ServeFileFS(w, r, assets, f.name)
}

// contentTypes are written out, because what the machine says of them may be anything.
var contentTypes = map[string]string{
	".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
}

func secure(w http.ResponseWriter) {
	w.Header().Set("Content-Security-Policy", policy)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.Header().Set("Cross-Origin-Opener-Policy", "same-origin")
}
