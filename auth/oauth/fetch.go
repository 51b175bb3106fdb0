package oauth

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// The names of the limits.
const (
	limitTokenBytes     = "max_token_bytes"
	limitCacheBytes     = "max_token_cache_bytes"
	limitFailures       = "max_auth_failures"
	limitAddresses      = "max_auth_addresses"
	limitIntrospections = "max_introspections"
	limitWaiters        = "max_key_waiters"
	limitIssuerBytes    = "max_issuer_bytes"
	limitIssuerKeys     = "max_issuer_keys"
)

// A limitError says which limit was reached.
type limitError struct{ name, text string }

func (e limitError) Error() string { return e.text }

// A statusError is an answer with a status other than 200.
type statusError struct {
	url      string
	status   int
	location string
}

func (e *statusError) Error() string {
	if e.location != "" {
		return fmt.Sprintf("%s redirects to %.200q: redirects are not followed", e.url, e.location)
	}
	return fmt.Sprintf("%s answers with status %d", e.url, e.status)
}

// newClient returns a client that follows no redirect and sends no cookies. idle closes the idle
// connections of one that the program has not given.
func newClient(given *http.Client) (client *http.Client, idle func()) {
	idle = func() {}
	if given == nil {
		transport := &http.Transport{
			Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: 5 * time.Second, IdleConnTimeout: 90 * time.Second,
			MaxIdleConnsPerHost: 8, MaxResponseHeaderBytes: 64 << 10, ForceAttemptHTTP2: true,
		}
		given, idle = &http.Client{Transport: transport}, transport.CloseIdleConnections
	}
	copied := *given
	copied.Jar = nil
	copied.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &copied, idle
}

// do sends a request to an issuer, at a URL that was checked, and returns the body of its answer.
func (s *ResourceServer) do(req *http.Request) ([]byte, error) {
	req.Header.Set("Accept", "application/json")
	res, err := s.client.Do(req)
	if err != nil {
		return nil, withoutMethod(err)
	}
	defer res.Body.Close()
	where := req.URL.String()
	if res.StatusCode != http.StatusOK {
		return nil, &statusError{where, res.StatusCode, res.Header.Get("Location")}
	}
	limit := s.cfg.Limits.MaxIssuerBytes
	body, err := io.ReadAll(io.LimitReader(res.Body, int64(limit)+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", where, err)
	case len(body) > limit:
		s.counts.reached(limitIssuerBytes)
		return nil, limitError{limitIssuerBytes, fmt.Sprintf("%s sends more than %d bytes (%s)", where, limit, limitIssuerBytes)}
	}
	return body, nil
}

// withoutMethod returns an error of a client without the word for the method.
func withoutMethod(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return fmt.Errorf("%s: %w", wrapped.URL, wrapped.Err)
	}
	return err
}
