package driver

import (
	"context"
	"errors"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
)

// Redirect is where an authorization server sends the browser with its answer. Nothing listens there.
const Redirect = "http://127.0.0.1:1/callback"

// Browse is a browser without a history: it follows the redirects of an authorization server with the
// cookies of this visit, and returns the parameters that the client is called back with.
func Browse(ctx context.Context, address string) (url.Values, error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	var callback url.Values
	browser := &http.Client{Jar: jar, CheckRedirect: func(next *http.Request, _ []*http.Request) error {
		if strings.HasPrefix(next.URL.String(), Redirect) {
			callback = next.URL.Query()
			return http.ErrUseLastResponse
		}
		return nil
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	resp, err := browser.Do(req)
	if err != nil {
		return nil, err
	}
	if err := resp.Body.Close(); err != nil {
		return nil, err
	}
	if callback == nil {
		return nil, errors.New("the authorization server answers with the status " + resp.Status)
	}
	return callback, nil
}
