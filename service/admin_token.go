package service

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/internal/reload"
	"github.com/vitrine-mcp/vitrine/internal/streamable"
)

// An adminToken is the credential of the admin listener. It is a file with one token on a line, so
// that an operator can replace a token while the old one is still good. It is safe for concurrent
// use.
type adminToken struct {
	files *reload.Files[[][sha256.Size]byte]
}

// minToken is the least number of characters of a token. Fewer can be guessed.
const minToken = 16

// newAdminToken reads the file. It returns nil if path is "".
func newAdminToken(path string) (*adminToken, error) {
	if path == "" {
		return nil, nil
	}
	files, err := reload.Open(
		func(texts [][]byte) ([][sha256.Size]byte, error) { return parseAdminTokens(path, texts[0]) },
		func(err error) {
			slog.Error("admin.token", "error", err, "effect", "the tokens that were read last stay good")
		}, path)
	if err != nil {
		return nil, fmt.Errorf("service: admin token: %w", err)
	}
	return &adminToken{files}, nil
}

// parseAdminTokens returns the digests of the tokens. Errors show no part of a token.
func parseAdminTokens(path string, text []byte) (digests [][sha256.Size]byte, err error) {
	for line, token := range strings.Split(string(text), "\n") {
		if token = strings.TrimSpace(token); token == "" {
			continue
		}
		if len(token) < minToken || strings.Count(token, token[:1]) == len(token) {
			return nil, fmt.Errorf("%s: the token on line %d can be guessed: it must be random and have %d characters or more",
				path, line+1, minToken)
		}
		digests = append(digests, sha256.Sum256([]byte(token)))
	}
	if digests == nil {
		return nil, fmt.Errorf("%s: there is no token", path)
	}
	return digests, nil
}

// errNoCredential says that a request has no credential.
var errNoCredential = errors.New("no token was sent")

// check returns why a request is not let in, or nil. The time it takes does not depend on the
// token.
func (t *adminToken) check(r *http.Request) error {
	sent := r.Header["Authorization"]
	if len(sent) == 0 {
		return errNoCredential
	}
	scheme, token, _ := strings.Cut(sent[0], " ")
	if !strings.EqualFold(scheme, "Bearer") { // RFC 9110: upper and lower case are alike
		var basic bool
		if _, token, basic = r.BasicAuth(); !basic {
			return errors.New("the Authorization header has neither the form Bearer nor Basic")
		}
	}
	got, good := sha256.Sum256([]byte(strings.TrimSpace(token))), 0
	for _, want := range t.files.Value() {
		good |= subtle.ConstantTimeCompare(got[:], want[:])
	}
	if good == 0 || len(sent) > 1 {
		return errors.New("the token is wrong")
	}
	return nil
}

// needsToken reports whether a path of the admin listener is only for operators. Probes and
// scrapers have no credentials.
func needsToken(path string) bool {
	switch path {
	case pathLive, pathReady, pathMetrics:
		return false
	}
	return true
}

// authorized lets operators in. With a token file they need a token, or to be one of the admin
// subjects. Without one all callers on this machine are let in, too.
func (p *process) authorized(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !needsToken(r.URL.Path) {
			next.ServeHTTP(w, r)
			return
		}
		who, err := p.identifyOperator(r)
		switch {
		case who != nil:
			r.Header.Del("Authorization") // no page has a use for it
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), operatorKey{}, who)))
		case p.access.adminToken != nil:
			p.denied(r, http.StatusUnauthorized, err)
			w.Header().Add("WWW-Authenticate", `Basic realm="admin", charset="UTF-8"`)
			w.Header().Add("WWW-Authenticate", `Bearer realm="admin"`)
			plain(w, http.StatusUnauthorized, err.Error()+": this page needs a token of the file that "+p.tokenSetting()+
				" names, as Authorization: Bearer, or as the password of any user")
		case streamable.ListensOnLoopback(r):
			next.ServeHTTP(w, r)
		default:
			p.denied(r, http.StatusForbidden, errors.New("there is no token file, and the request came from the network"))
			plain(w, http.StatusForbidden, "only health checks and /metrics are open to the network: this page needs a token ("+p.tokenSetting()+")")
		}
	})
}

// identifyOperator returns the operator who sends a request, or nil. The error then says why the token
// file does not accept the request; it is nil if there is no file.
//
// The file comes first: the authenticator may send a token that it does not know to an issuer, and
// counts it as a failure of the address. An admin token is a secret of this process and no such failure.
func (p *process) identifyOperator(r *http.Request) (who *operator, err error) {
	if p.access.adminToken != nil {
		if err = p.access.adminToken.check(r); err == nil {
			user, _, _ := r.BasicAuth()
			return &operator{principal: &auth.Principal{Issuer: "admin-token", Subject: "operator"}, user: user}, nil
		}
	}
	return p.operates(r), err
}

func (p *process) tokenSetting() string {
	return fmt.Sprintf("--%s or %s", flagAdminToken, p.env.name(flagAdminToken))
}

// denied logs a request that is not let in, once a second, and records each action.
func (p *process) denied(r *http.Request, status int, why error) {
	p.refusedAction(r, status, why)
	if ok, silenced := p.refusals.Allow("admin.denied", why.Error(), time.Now()); ok {
		slog.Warn("admin.denied", "path", logline.Printable(r.URL.Path, maxHostLogged), "remote", r.RemoteAddr,
			"error", why, "silenced", silenced)
	}
}
