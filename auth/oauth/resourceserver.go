// Package oauth makes an MCP server an OAuth 2.1 resource server (specification: "Authorization"):
// it finds the principals of requests by their access tokens, and tells clients where to get one.
//
//	rs, err := oauth.New(oauth.Config{Issuers: []string{"https://login.example.com"}, Resource: "https://mcp.example.com/mcp"})
//	srv := server.New("weather", "1.0.0", server.WithAuthenticator(rs))
//	for _, path := range rs.MetadataPaths() { mux.Handle(path, rs.Handler()) }
//
// A token is accepted if it comes in the header Authorization, has a valid signature of one of the
// issuers, with an asymmetric algorithm and one of that issuer's own keys, was issued for this
// resource, has not expired, and is an access token. Keys are found by the metadata of the issuer
// (RFC 8414, OpenID Connect Discovery), are fetched again at intervals and when a token has an
// unknown key id, and serve while the issuer is down. The server follows nothing that a token says
// about keys (jku, jwk, x5u, x5c).
//
// A caller with a bad token learns only that it is not valid: status 401, error="invalid_token". The
// reason is on the refusal ([mcp.Refusal], Reason), for metrics, logs and audit: token_missing,
// token_malformed, token_expired, token_not_yet_valid, token_signature, token_issuer,
// token_audience, token_type, token_algorithm, token_inactive, token_claims. Other reasons are
// authorization_malformed (400: two Authorization headers, or no token after Bearer),
// auth_rate_limited (429) and issuer_unavailable (503).
package oauth

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"golang.org/x/sync/singleflight"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/share"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A ResourceServer finds the principals of callers by their access tokens. It is an
// [auth.Authenticator], an [auth.Challenger] and an [auth.Reporter]. It is safe for concurrent use.
type ResourceServer struct {
	cfg        Config
	issuers    map[string]*issuer
	client     *http.Client
	idle       func() // closes the idle connections of a client of its own
	parser     *jwt.Parser
	validator  *jwt.Validator
	metadata   metadata
	challenges challenges
	cache      tokenCache
	refused    refusedTokens
	failures   failures
	counts     counters
	// introspections joins the introspections of one token; slots bounds those of all, so that one address leaves room for others.
	introspections singleflight.Group
	slots          *share.Pool
	table          *share.Table // of the addresses that have slots

	start   sync.Once // of the periodic refreshes
	ctx     context.Context
	cancel  context.CancelFunc
	mu      sync.Mutex // guards closed, and Add of running
	closed  bool
	running sync.WaitGroup // goroutines that fetch something
}

// New returns a resource server, or an error that says what is wrong with the configuration. It
// fetches nothing before the first token arrives or [ResourceServer.Check] is called. The caller
// must call Close.
func New(cfg Config) (*ResourceServer, error) {
	cfg = cfg.withDefaults()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	s := &ResourceServer{
		cfg: cfg, issuers: map[string]*issuer{}, slots: share.NewPool(cfg.Limits.MaxIntrospections), table: share.NewTable(),
		cache:    tokenCache{entries: map[digest]*cached{}, max: cfg.Limits.MaxTokenCacheBytes},
		refused:  refusedTokens{byDigest: map[digest]refusedToken{}},
		failures: failures{byAddress: map[addressKey]*bucket{}, perMinute: float64(cfg.Limits.MaxAuthFailures), max: cfg.Limits.MaxAuthAddresses},
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.client, s.idle = newClient(cfg.Client)
	s.parser = jwt.NewParser(jwt.WithValidMethods(cfg.Algorithms), jwt.WithStrictDecoding(), jwt.WithoutClaimsValidation())
	s.validator = jwt.NewValidator(
		jwt.WithAudience(cfg.Audiences...), jwt.WithExpirationRequired(), jwt.WithLeeway(cfg.ClockSkew), jwt.WithTimeFunc(cfg.Now))
	for _, name := range cfg.Issuers {
		s.issuers[name] = newIssuer(s, name)
	}
	s.metadata = newMetadata(&s.cfg)
	s.challenges = newChallenges(s.metadata.url, cfg.InitialScopes)
	return s, nil
}

// MaxBytes returns the memory that callers can make the server hold, in bytes: verified and refused tokens, addresses with
// failures, and what issuers answer.
func (s *ResourceServer) MaxBytes() int {
	l := s.cfg.Limits
	documents, refused := len(s.cfg.Issuers), 0
	if s.cfg.Introspection != nil {
		documents += l.MaxIntrospections
		refused = maxRefused
	}
	return l.MaxTokenCacheBytes + refused*refusedBytes + l.MaxAuthAddresses*addressBytes + documents*l.MaxIssuerBytes
}

// addressBytes is what an address with failures takes.
const addressBytes = 256

// Close ends the goroutines of the server and waits for them. Tokens that need no request to an
// issuer are verified all the same afterwards.
func (s *ResourceServer) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.running.Wait()
	s.idle()
	return nil
}

// begin reports whether work in another goroutine may begin. The goroutine must call
// s.running.Done at its end.
func (s *ResourceServer) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.running.Add(1)
	}
	return !s.closed
}

// Authenticate returns the principal of a caller by its access token. The error is a
// [*mcp.Refusal]. It may wait for an issuer, as long as Config.Timeout says, and no longer than ctx
// lets it.
//
// A caller without a token or with credentials of another scheme, and a token that is no JWT and that
// no issuer is asked about, are not recognized ([auth.ErrNotRecognized]): behind [auth.FirstOf] the
// next authenticator is asked. With Config.Optional, the resource server must be the last one there.
//
// Expires of the principal is the time until which the token is accepted: its claim exp and
// Config.ClockSkew.
//
// Callers over stdio and in memory, which send no header, have the principal of Config.StdioToken,
// or none. Callers over any other transport without headers are refused.
func (s *ResourceServer) Authenticate(ctx context.Context, caller *auth.Caller) (*auth.Principal, error) {
	token, refused := s.credentials(caller)
	if refused != nil {
		return nil, refused
	}
	if token == "" {
		if s.cfg.Optional && len(caller.Header["Authorization"]) == 0 || isLocal(caller) {
			return nil, nil
		}
		return nil, s.challenges.missing
	}
	p, refused := s.verify(ctx, caller, token)
	if refused != nil {
		return nil, refused
	}
	return p, nil
}

// verified is what is known about a token.
type verified struct {
	principal *auth.Principal
	expires   time.Time // when it is not accepted any more: that of the principal
	// keys are those that may have verified the signature: one of them, if the token names it.
	keys []*key
}

// verify returns the principal of a token.
func (s *ResourceServer) verify(ctx context.Context, caller *auth.Caller, token string) (*auth.Principal, *mcp.Refusal) {
	if len(token) > s.cfg.Limits.MaxTokenBytes {
		s.counts.reached(limitTokenBytes)
		return nil, s.refuse(reasonMalformed, errTooLong).limit(limitTokenBytes)
	}
	sum := digestOf(token)
	now := s.cfg.Now()
	if p := s.cache.get(sum, now); p != nil {
		s.counts.cacheHits.Add(1)
		return p, nil
	}
	if reason := s.refused.reason(sum, now); reason != "" {
		s.counts.cacheRefused.Add(1)
		return nil, (*mcp.Refusal)(s.refuse(reason, errRefusedBefore))
	}
	s.start.Do(s.keepFresh)
	how, verifyToken := &s.counts.jwt, s.verifyJWT
	if s.introspects(token) {
		how, verifyToken = &s.counts.introspection, s.introspect
	}
	began := time.Now()
	v, refused := verifyToken(ctx, caller, token, sum)
	how.add(time.Since(began), refused)
	if refused != nil {
		return nil, (*mcp.Refusal)(refused)
	}
	if how == &s.counts.jwt { // an introspection has remembered it
		s.remember(sum, v, now)
	}
	return v.principal, nil
}

// remember remembers a token that was verified after now.
func (s *ResourceServer) remember(sum digest, v verified, now time.Time) {
	if s.cfg.CacheTTL <= 0 {
		return
	}
	until := now.Add(s.cfg.CacheTTL)
	if v.expires.Before(until) {
		until = v.expires
	}
	if s.cache.add(sum, &cached{verified: v, until: until, cost: sizeOf(v.principal)}, now) {
		s.counts.reached(limitCacheBytes)
	}
}

// keepFresh begins the periodic refreshes of all issuers.
func (s *ResourceServer) keepFresh() {
	for _, i := range s.issuers {
		if s.begin() {
			go i.keepFresh()
		}
	}
}
