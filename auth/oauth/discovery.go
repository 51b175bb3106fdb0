package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json"
)

// A document is the metadata of an authorization server (RFC 8414, section 2), as far as a resource
// server needs it.
type document struct {
	Issuer                string `json:"issuer"`
	JWKSURI               string `json:"jwks_uri"`
	IntrospectionEndpoint string `json:"introspection_endpoint"`
}

// get fetches a document of an issuer.
func (s *ResourceServer) get(ctx context.Context, where string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, where, http.NoBody)
	if err != nil {
		return nil, err
	}
	return s.do(req)
}

// metadataURLs returns where the metadata of an issuer may be, in the order in which clients look:
// RFC 8414, section 3.1, OpenID Connect with the path at the end of the host, and OpenID Connect
// Discovery 1.0, section 4.
func metadataURLs(issuer string) []string {
	u, err := url.Parse(issuer)
	if err != nil {
		return nil
	}
	host, path := u.Scheme+"://"+u.Host, strings.TrimSuffix(u.EscapedPath(), "/")
	urls := []string{
		host + "/.well-known/oauth-authorization-server" + path,
		host + "/.well-known/openid-configuration" + path,
	}
	if path != "" {
		urls = append(urls, host+path+"/.well-known/openid-configuration")
	}
	return urls
}

// discover fetches the metadata of the issuer. Where there is none, it looks at the next place. It
// does not if the issuer cannot be reached.
func (i *issuer) discover(ctx context.Context) (*document, error) {
	var problems []error
	for _, where := range metadataURLs(i.name) {
		body, err := i.s.get(ctx, where)
		if err == nil {
			var d *document
			if d, err = i.read(where, body); err == nil {
				return d, nil
			}
		}
		problems = append(problems, err)
		if answer, ok := errors.AsType[*statusError](err); ok && answer.status < 500 {
			continue
		}
		if _, ok := errors.AsType[*contentError](err); !ok {
			break
		}
	}
	return nil, fmt.Errorf("metadata: %w", errors.Join(problems...))
}

// A contentError says what is wrong with a document that has arrived.
type contentError struct{ text string }

func (e *contentError) Error() string { return e.text }

// read reads metadata. Its issuer must be exactly the one that is configured (RFC 8414, section
// 3.3): else one server could pass for another.
func (i *issuer) read(where string, body []byte) (*document, error) {
	var d document
	if err := json.Unmarshal(body, &d); err != nil {
		return nil, &contentError{fmt.Sprintf("%s is no metadata: %v", where, err)}
	}
	if d.Issuer != i.name {
		return nil, &contentError{fmt.Sprintf("%s is of the issuer %.200q, and must be of %q: configure the issuer exactly as its metadata has it", where, d.Issuer, i.name)}
	}
	introspects := i.s.cfg.Introspection
	asked := introspects != nil && introspects.Issuer == i.name
	if d.JWKSURI == "" && !asked {
		return nil, &contentError{where + " has no jwks_uri"}
	}
	for name, value := range map[string]string{"jwks_uri": d.JWKSURI, "introspection_endpoint": d.IntrospectionEndpoint} {
		if value == "" {
			continue
		}
		u, err := url.Parse(value)
		if err == nil {
			err = checkSecure(u)
		}
		if err != nil {
			return nil, &contentError{fmt.Sprintf("%s has the %s %.200q: %v", where, name, value, err)}
		}
	}
	return &d, nil
}
