package oauth

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/golang-jwt/jwt/v5"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/jsonvalue"
)

// claims are the claims of a token (RFC 7519, section 4), or of the answer to an introspection. It
// implements [jwt.Claims].
type claims struct {
	all                map[string]any // whole numbers are int64
	issuer, subject    string
	audience           jwt.ClaimStrings
	expires, notBefore *jwt.NumericDate
}

// A claimError says which claim is wrong.
type claimError struct{ name, problem string }

func (e *claimError) Error() string { return "the claim " + e.name + " " + e.problem }

// wholeNumbers decodes whole numbers as int64: a float64 loses digits of large ids.
var wholeNumbers = json.WithUnmarshalers(json.UnmarshalFromFunc(func(dec *jsontext.Decoder, v *any) error {
	if dec.PeekKind() != '0' {
		return errors.ErrUnsupported
	}
	token, err := dec.ReadToken()
	if err != nil {
		return err
	}
	if n, err := strconv.ParseInt(token.String(), 10, 64); err == nil {
		*v = n
		return nil
	}
	f, err := jsonvalue.Float([]byte(token.String()), 64)
	*v = f
	return err
}))

// UnmarshalJSON decodes claims. Names must not be repeated: which of two values holds would depend
// on the reader.
func (c *claims) UnmarshalJSON(data []byte) error {
	if err := json.Unmarshal(data, &c.all, wholeNumbers); err != nil {
		return err
	}
	var err error
	if c.issuer, err = c.text("iss"); err != nil {
		return err
	}
	if c.subject, err = c.text("sub"); err != nil {
		return err
	}
	if c.audience, err = c.texts("aud", noSplit); err != nil {
		return err
	}
	if c.expires, err = c.date("exp"); err != nil {
		return err
	}
	c.notBefore, err = c.date("nbf")
	return err
}

// text returns a claim that is a string, or "" if there is none.
func (c *claims) text(name string) (string, error) {
	switch v := c.all[name].(type) {
	case nil:
		return "", nil
	case string:
		return v, nil
	}
	return "", &claimError{name, "is no string"}
}

func noSplit(s string) []string { return []string{s} }

// texts returns a claim that is a list of strings, or a string that split makes a list of.
func (c *claims) texts(name string, split func(string) []string) ([]string, error) {
	switch v := c.all[name].(type) {
	case nil:
		return nil, nil
	case string:
		return split(v), nil
	case []any:
		list := make([]string, len(v))
		for i, e := range v {
			s, ok := e.(string)
			if !ok {
				return nil, &claimError{name, "has an element that is no string"}
			}
			list[i] = s
		}
		return list, nil
	}
	return nil, &claimError{name, "is neither a string nor a list of strings"}
}

// maxDate is the end of the year 9999, in seconds: later times cannot be written in RFC 3339.
const maxDate = 253402300799

// date returns a claim that is a NumericDate, or nil if there is none.
func (c *claims) date(name string) (*jwt.NumericDate, error) {
	var seconds float64
	switch v := c.all[name].(type) {
	case nil:
		return nil, nil
	case int64:
		seconds = float64(v)
	case float64:
		seconds = v
	default:
		return nil, &claimError{name, "is no number"}
	}
	if !(seconds >= 0 && seconds <= maxDate) {
		return nil, &claimError{name, "is no time between the years 1970 and 9999"}
	}
	return &jwt.NumericDate{Time: time.UnixMilli(int64(seconds * 1000))}, nil
}

// GetExpirationTime implements [jwt.Claims], as the following methods do.
func (c *claims) GetExpirationTime() (*jwt.NumericDate, error) { return c.expires, nil }
func (c *claims) GetNotBefore() (*jwt.NumericDate, error)      { return c.notBefore, nil }
func (c *claims) GetIssuedAt() (*jwt.NumericDate, error)       { return nil, nil }
func (c *claims) GetIssuer() (string, error)                   { return c.issuer, nil }
func (c *claims) GetSubject() (string, error)                  { return c.subject, nil }
func (c *claims) GetAudience() (jwt.ClaimStrings, error)       { return c.audience, nil }

// end returns the time until which the token is accepted here, with the skew of clocks. Streams end then, and the token is not
// remembered for longer. There must be a claim exp.
func (c *claims) end(skew time.Duration) time.Time {
	end, last := c.expires.Add(skew), time.Unix(maxDate, 0)
	if end.After(last) {
		return last
	}
	return end
}

// maxActors bounds the chain of actors of a token.
const maxActors = 16

// principal returns the principal that claims are about. issuer is the issuer that has made them.
func (c *claims) principal(cfg *Config, issuer string) (*auth.Principal, error) {
	if c.subject == "" {
		return nil, &claimError{"sub", "is missing"}
	}
	if c.all["cnf"] != nil {
		return nil, &claimError{"cnf", "binds the token to a key, which this server does not verify"}
	}
	p := &auth.Principal{Issuer: issuer, Subject: c.subject, Expires: c.end(cfg.ClockSkew), Claims: c.all}
	for _, name := range cfg.ScopeClaims {
		scopes, err := c.texts(name, strings.Fields)
		if err != nil {
			return nil, err
		}
		for _, scope := range scopes {
			if !slices.Contains(p.Scopes, scope) {
				p.Scopes = append(p.Scopes, scope)
			}
		}
	}
	for _, name := range []string{"client_id", "azp", "cid"} {
		if client, ok := c.all[name].(string); ok && client != "" {
			p.Client = client
			break
		}
	}
	if cfg.TenantClaim != "" {
		tenant, err := c.text(cfg.TenantClaim)
		if err == nil && tenant == "" {
			err = &claimError{cfg.TenantClaim, "is missing, and has the tenant"}
		}
		if err != nil {
			return nil, err
		}
		p.Tenant = tenant
	}
	var err error
	if p.Actors, err = actors(c.all["act"], issuer); err != nil {
		return nil, err
	}
	return p, p.Check()
}

// actors returns the chain of actors of the claim act (RFC 8693, section 4.1), the current one
// first. An actor of another issuer is followed by that issuer.
func actors(act any, issuer string) (chain []string, err error) {
	for act != nil {
		members, ok := act.(map[string]any)
		if !ok {
			return nil, &claimError{"act", "is no object"}
		}
		name, _ := members["sub"].(string)
		if name == "" {
			name, _ = members["client_id"].(string)
		}
		if name == "" {
			return nil, &claimError{"act", "names no actor"}
		}
		if of, _ := members["iss"].(string); of != "" && of != issuer {
			name = (&auth.Principal{Issuer: of, Subject: name}).String()
		}
		if chain = append(chain, name); len(chain) > maxActors {
			return nil, &claimError{"act", fmt.Sprintf("has more than %d actors", maxActors)}
		}
		act = members["act"]
	}
	return chain, nil
}
