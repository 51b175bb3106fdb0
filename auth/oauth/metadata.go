package oauth

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// wellKnown is where the metadata of a resource is (RFC 9728, section 3).
const wellKnown = "/.well-known/oauth-protected-resource"

// metadata is the metadata of the resource, as it is served.
type metadata struct {
	url   string // where challenges send clients
	paths []string
	body  []byte
}

// resourceMetadata is the document of RFC 9728, section 2.
type resourceMetadata struct {
	Resource             string   `json:"resource"`
	AuthorizationServers []string `json:"authorization_servers"`
	ScopesSupported      []string `json:"scopes_supported,omitempty"`
	BearerMethods        []string `json:"bearer_methods_supported"`
	Name                 string   `json:"resource_name,omitempty"`
	Documentation        string   `json:"resource_documentation,omitempty"`
}

// newMetadata returns the metadata of a checked configuration.
func newMetadata(cfg *Config) metadata {
	body, err := json.Marshal(resourceMetadata{
		Resource: cfg.Resource, AuthorizationServers: cfg.Issuers, ScopesSupported: cfg.Scopes,
		BearerMethods: []string{"header"}, Name: cfg.Name, Documentation: cfg.Documentation,
	})
	if err != nil {
		panic(err) // strings can always be encoded
	}
	u, _ := url.Parse(cfg.Resource) // checked before
	path := wellKnown + strings.TrimSuffix(u.EscapedPath(), "/")
	m := metadata{url: u.Scheme + "://" + u.Host + path, body: body}
	for _, p := range []string{wellKnown, path, wellKnown + strings.TrimSuffix(cfg.Endpoint, "/")} {
		if !slices.Contains(m.paths, p) {
			m.paths = append(m.paths, p)
		}
	}
	return m
}

// MetadataPaths returns the paths at which the server's metadata must be served, by
// [ResourceServer.Handler]: /.well-known/oauth-protected-resource, and below it the path of the
// resource and that of the endpoint (RFC 9728, section 3.1). Clients look at all of them. The caller
// owns the slice.
func (s *ResourceServer) MetadataPaths() []string { return slices.Clone(s.metadata.paths) }

// Handler serves the metadata of the resource (RFC 9728) at MetadataPaths. It needs no token, and
// pages of all origins may read it. It must not be behind anything that asks for credentials.
func (s *ResourceServer) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Access-Control-Allow-Origin", "*")
		h.Set("X-Content-Type-Options", "nosniff")
		switch {
		case !slices.Contains(s.metadata.paths, r.URL.EscapedPath()):
			http.Error(w, "there is no metadata here: it is at "+s.metadata.url, http.StatusNotFound)
		case r.Method == http.MethodGet || r.Method == http.MethodHead:
			h.Set("Content-Type", "application/json")
			h.Set("Cache-Control", "public, max-age=300")
			_, _ = w.Write(s.metadata.body) // net/http sends no body for HEAD
		case r.Method == http.MethodOptions:
			h.Set("Access-Control-Allow-Methods", "GET, HEAD, OPTIONS")
			h.Set("Access-Control-Allow-Headers", "*, Authorization")
			h.Set("Access-Control-Max-Age", "7200")
			w.WriteHeader(http.StatusNoContent)
		default:
			h.Set("Allow", "GET, HEAD, OPTIONS")
			http.Error(w, "the metadata can only be read", http.StatusMethodNotAllowed)
		}
	})
}
