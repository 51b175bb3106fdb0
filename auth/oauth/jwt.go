package oauth

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/golang-jwt/jwt/v5"

	"github.com/vitrine-mcp/vitrine/auth"
)

// A refusalError carries a refusal through the JWT library.
type refusalError struct{ *refusal }

func (e refusalError) Error() string { return e.Reason }

// verifyJWT verifies a token that is a JWT. The claim iss, which is not verified yet, chooses the
// issuer; only that issuer's keys can verify the token.
func (s *ResourceServer) verifyJWT(ctx context.Context, _ *auth.Caller, token string, _ digest) (verified, *refusal) {
	c := &unverified{}
	var v verified
	var from *issuer
	typed := false
	switch alg, values := readHeader(token); {
	case !alg:
		// Perhaps another authenticator knows it.
		return v, s.refuse(reasonMalformed, fmt.Errorf("%w: the token is no JWT", auth.ErrNotRecognized))
	case values > maxHeaderValues:
		return v, s.refuse(reasonMalformed, errFullHeader)
	}
	parsed, err := s.parser.ParseWithClaims(token, c, func(t *jwt.Token) (any, error) {
		if from = s.issuers[c.issuer]; from == nil {
			return nil, refusalError{s.refuse(reasonIssuer, fmt.Errorf("the issuer %.200q is not one of ours", c.issuer))}
		}
		var refused *refusal
		if typed, refused = s.tokenType(from, t.Header, c); refused != nil {
			return nil, refusalError{refused}
		}
		kid, _ := t.Header["kid"].(string)
		if v.keys, refused = from.lookup(ctx, kid, t.Method.Alg()); refused != nil {
			return nil, refusalError{refused}
		}
		set := jwt.VerificationKeySet{}
		for _, k := range v.keys {
			set.Keys = append(set.Keys, k.public)
		}
		return set, nil
	})
	if err != nil {
		return v, s.refuseJWT(parsed, err)
	}
	if err := json.Unmarshal(c.raw, &c.claims); err != nil {
		return v, s.refuseJWT(parsed, fmt.Errorf("%w: %w", jwt.ErrTokenMalformed, err))
	}
	if err := s.validator.Validate(c); err != nil {
		return v, s.refuseClaims(&c.claims, err)
	}
	if v.principal, err = c.principal(&s.cfg, c.issuer); err != nil {
		return v, s.refuse(reasonClaims, err)
	}
	if typed { // not before: the issuer may send another type for other resources
		from.sendsType.Store(true)
	}
	v.expires = v.principal.Expires
	return v, nil
}

// maxHeaderValues bounds the values of a token's header, those in objects and lists with them. Anybody can send a token, and
// the library decodes all of the header before it looks at the signature: a list of numbers took 370 times the time of an echo.
// A number counts as numberValues.
const maxHeaderValues, numberValues = 64, 8

var errFullHeader = fmt.Errorf("the header of the token has more than %d values", maxHeaderValues)

// readHeader reports whether a token has three parts, of which the first is a JSON object with the member alg, and returns how many
// values that object has.
func readHeader(token string) (alg bool, values int) {
	header, rest, _ := strings.Cut(token, ".")
	if strings.Count(rest, ".") != 1 {
		return false, 0
	}
	text, err := base64.RawURLEncoding.DecodeString(header)
	if err != nil || !jsontext.Value(text).IsValid() {
		return false, 0
	}
	dec := jsontext.NewDecoder(bytes.NewReader(text))
	if object, _ := dec.ReadToken(); object.Kind() != '{' {
		return false, 0
	}
	for {
		token, err := dec.ReadToken()
		if err != nil {
			return alg, values // the end
		}
		switch kind, n := dec.StackIndex(dec.StackDepth()); {
		case token.Kind() == '}' || token.Kind() == ']':
		case kind == '{' && n%2 == 1: // a name
			alg = alg || dec.StackDepth() == 1 && token.String() == "alg" && dec.PeekKind() != 'n'
		case token.Kind() == '0':
			values += numberValues
		default:
			values++
		}
	}
}

// unverified is what a token says before its signature is verified: which issuer has the keys, and what the token is for.
// The rest is decoded afterwards, because anybody can send a token, and lists in lists took 60 times the time of an echo.
type unverified struct {
	claims        // with the issuer only until then
	raw           []byte
	typ, tokenUse string // claims that say what a token is for
}

// UnmarshalJSON decodes what is needed, and keeps the rest.
func (u *unverified) UnmarshalJSON(data []byte) error {
	var early struct {
		Issuer   jsontext.Value `json:"iss"`
		Type     jsontext.Value `json:"typ"`
		TokenUse jsontext.Value `json:"token_use"`
	}
	if err := json.Unmarshal(data, &early); err != nil {
		return err
	}
	text := func(v jsontext.Value) (s string) {
		_ = json.Unmarshal(v, &s) // "" if it is no string
		return s
	}
	if kind := early.Issuer.Kind(); kind != '"' && kind != 'n' && len(early.Issuer) > 0 {
		return &claimError{"iss", "is no string"}
	}
	u.raw = bytes.Clone(data)
	u.issuer, u.typ, u.tokenUse = text(early.Issuer), text(early.Type), text(early.TokenUse)
	return nil
}

// tokenType refuses a JWT that is no access token. typed tells that the token has the type of access
// tokens (RFC 9068). Issuers that do not know that type send JWT, or none.
func (s *ResourceServer) tokenType(from *issuer, header map[string]any, c *unverified) (typed bool, refused *refusal) {
	refuse := func(format string, args ...any) (bool, *refusal) {
		return false, s.refuse(reasonType, fmt.Errorf(format, args...))
	}
	if _, ok := header["crit"]; ok {
		return refuse("the header has crit: extensions that must be understood, and none is")
	}
	typ, _ := header["typ"].(string)
	switch strings.TrimPrefix(strings.ToLower(typ), "application/") {
	case "at+jwt":
		return true, nil
	case "", "jwt":
	default:
		return refuse("the type is %.64q, and must be at+jwt", typ)
	}
	if s.cfg.RequireTokenType || from.sendsType.Load() {
		return refuse("the type is %.64q, and the access tokens of this issuer have at+jwt", typ)
	}
	return false, s.tokenUse(c.typ, c.tokenUse)
}

// tokenUse refuses a token whose claims typ or token_use say that it is no access token. Without a type, ID tokens and refresh
// tokens look like access tokens. Keycloak and Cognito say in a claim what a token is.
func (s *ResourceServer) tokenUse(claims ...string) *refusal {
	for _, use := range claims {
		if slices.Contains([]string{"id", "refresh", "offline", "logout"}, strings.ToLower(use)) {
			return s.refuse(reasonType, fmt.Errorf("the claims say that it is %.64q: this is no access token", use))
		}
	}
	return nil
}

// refuseJWT refuses a token that the library has refused.
func (s *ResourceServer) refuseJWT(parsed *jwt.Token, err error) *refusal {
	if known, ok := errors.AsType[refusalError](err); ok {
		return known.refusal
	}
	reason := reasonSignature
	switch {
	case errors.Is(err, jwt.ErrTokenMalformed):
		reason = reasonMalformed
		if _, ok := errors.AsType[*claimError](err); ok {
			reason = reasonClaims
		}
	case !slices.Contains(s.cfg.Algorithms, algorithm(parsed)):
		reason = reasonAlgorithm
	}
	return s.refuse(reason, err)
}

// algorithm returns the algorithm that a token names, or "".
func algorithm(t *jwt.Token) string {
	if t == nil {
		return ""
	}
	alg, _ := t.Header["alg"].(string)
	return alg
}

// refuseClaims refuses claims that the validator has refused.
func (s *ResourceServer) refuseClaims(c *claims, err error) *refusal {
	reason := reasonClaims
	switch {
	case errors.Is(err, jwt.ErrTokenInvalidAudience), len(c.audience) == 0:
		reason = reasonAudience
		err = fmt.Errorf("%w: the token is for %.200q, and must be for one of %.200q", err, c.audience, s.cfg.Audiences)
	case errors.Is(err, jwt.ErrTokenExpired):
		reason = reasonExpired
	case errors.Is(err, jwt.ErrTokenNotValidYet):
		reason = reasonNotYet
	}
	return s.refuse(reason, err)
}
