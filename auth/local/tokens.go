// Package local tells callers apart where there is no authorization server: by static tokens of a
// file, by client certificates, and by a header that a trusted proxy sets.
package local

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/reload"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// Tokens is an [auth.Authenticator] for static bearer tokens. It knows their digests only, from a file
// that it reads again when it changes. It is safe for concurrent use.
type Tokens struct {
	files *reload.Files[map[[sha256.Size]byte]*auth.Principal]
	now   func() time.Time
}

// LoadTokens reads a file of tokens. Each line has the SHA-256 digest of one token in hexadecimal, the
// subject that it stands for, and further words; # begins a comment:
//
//	5e88…1542 ann tenant=acme client=desk scopes=files:read,files:write expires=2027-06-30
//
// A token ends with the beginning of the day expires (UTC). A token must be random: nothing slows down
// who guesses one. If the file cannot be read any more, or has an error, the tokens of the last good
// file stay, and the error is logged. Errors show no digest.
func LoadTokens(path string) (*Tokens, error) {
	files, err := reload.Open(
		func(texts [][]byte) (map[[sha256.Size]byte]*auth.Principal, error) {
			return parseTokens(path, texts[0])
		},
		func(err error) {
			slog.Error("auth.tokens", "error", err, "effect", "the tokens that were read last stay good")
		}, path)
	if err != nil {
		return nil, fmt.Errorf("auth: tokens: %w", err)
	}
	return &Tokens{files: files, now: time.Now}, nil
}

func parseTokens(path string, text []byte) (map[[sha256.Size]byte]*auth.Principal, error) {
	tokens := map[[sha256.Size]byte]*auth.Principal{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line, _, _ := strings.Cut(lines.Text(), "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		digest, p, err := parseToken(words)
		if _, twice := tokens[digest]; err == nil && twice {
			err = errors.New("the token is there twice")
		}
		if err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", path, n, err)
		}
		tokens[digest] = p
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(tokens) == 0 {
		return nil, fmt.Errorf("%s: there is no token", path)
	}
	return tokens, nil
}

var errTokenLine = errors.New("want the SHA-256 digest of a token in hexadecimal, its subject, and then words such as scopes=files:read,files:write")

// parseToken reads the words of one line.
func parseToken(words []string) (digest [sha256.Size]byte, p *auth.Principal, err error) {
	raw, err := hex.DecodeString(words[0])
	if err != nil || len(raw) != len(digest) || len(words) < 2 {
		return digest, nil, errTokenLine
	}
	if copy(digest[:], raw); digest == sha256.Sum256(nil) {
		return digest, nil, errors.New("this is the digest of an empty token")
	}
	p = &auth.Principal{Subject: words[1]}
	for _, word := range words[2:] {
		name, value, _ := strings.Cut(word, "=")
		switch {
		case value == "":
			return digest, nil, fmt.Errorf("%.64q: %w", word, errTokenLine)
		case name == "issuer":
			p.Issuer = value
		case name == "tenant":
			p.Tenant = value
		case name == "client":
			p.Client = value
		case name == "scopes":
			p.Scopes = strings.FieldsFunc(value, func(r rune) bool { return r == ',' })
		case name == "expires":
			if p.Expires, err = time.Parse(time.DateOnly, value); err != nil {
				return digest, nil, fmt.Errorf("expires=%.64q: want a day such as 2027-06-30", value)
			}
		default:
			return digest, nil, fmt.Errorf("%.64q is none of issuer, tenant, client, scopes and expires", name)
		}
	}
	return digest, p, p.Check()
}

// byTokens says who refuses.
const byTokens = "tokens"

// Authenticate implements [auth.Authenticator]. A caller with a token that is not in the file matches
// [auth.ErrNotRecognized], so that another authenticator may know it; see [auth.FirstOf].
func (t *Tokens) Authenticate(_ context.Context, caller *auth.Caller) (*auth.Principal, error) {
	token, sent := bearer(caller)
	if !sent {
		return nil, refuse(byTokens, "token_missing", auth.ErrNotRecognized)
	}
	// The look-up is by digest, so its time tells nothing of the tokens.
	p := t.files.Value()[sha256.Sum256([]byte(token))]
	switch {
	case p == nil:
		return nil, refuse(byTokens, "token_unknown", auth.ErrNotRecognized)
	case !p.Expires.IsZero() && !t.now().Before(p.Expires):
		return nil, refuse(byTokens, "token_expired", fmt.Errorf("auth: the token of %s has expired", p))
	}
	return p, nil
}

// Stale reports whether the present content of the file is not in use, because it has a mistake or cannot
// be read. It looks at the file itself, once a second at most. Package service shows it in the metric
// vitrine_credentials_stale_files.
func (t *Tokens) Stale() bool { return t.files.Stale() }

// bearer returns the token of the Authorization header.
func bearer(caller *auth.Caller) (token string, sent bool) {
	headers := http.Header(caller.Header)["Authorization"]
	if len(headers) != 1 {
		return "", false
	}
	scheme, token, _ := strings.Cut(headers[0], " ")
	token = strings.TrimSpace(token)
	return token, token != "" && strings.EqualFold(scheme, "Bearer") // RFC 9110: upper and lower case are alike
}

// refuse returns a refusal. Whatever is wrong with a token, the caller is told the same.
func refuse(by, reason string, err error) error {
	r := &mcp.Refusal{Status: http.StatusUnauthorized, Reason: reason, By: by, Challenge: "Bearer", Err: err}
	if reason != "token_missing" {
		r.PublicReason, r.Challenge = "token_invalid", `Bearer error="invalid_token"`
	}
	return r
}
