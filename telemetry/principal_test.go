package telemetry

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/vitrine-mcp/vitrine/auth"
)

var ann = &auth.Principal{Issuer: "https://a.example", Subject: "ann", Tenant: "acme"}

// served ends an operation of a principal that failed, and returns its span.
func served(t *testing.T, opts ...Option) (*Telemetry, attribute.Set) {
	t.Helper()
	spans := tracetest.NewSpanRecorder()
	tel, err := New(append(opts, WithTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))))...)
	require.NoError(t, err)
	_, op := tel.Begin(context.Background(), Info{Method: "tools/call", Target: "x", Principal: ann})
	op.Error(errors.New("the disk is full"))
	op.End(Outcome{ToolError: true})
	require.Len(t, spans.Ended(), 1)
	return tel, attribute.NewSet(spans.Ended()[0].Attributes()...)
}

// The principal and the handler's own error are on the span and in the recent trace.
func TestPrincipalIsShown(t *testing.T) {
	tel, attrs := served(t)
	user, _ := attrs.Value("enduser.id")
	require.Equal(t, "ann", user.AsString())
	tenant, _ := attrs.Value("vitrine.tenant")
	require.Equal(t, "acme", tenant.AsString())

	w := httptest.NewRecorder()
	tel.TracesHandler().ServeHTTP(w, httptest.NewRequest("GET", "/debug/traces", nil))
	for _, want := range []string{`"principal": "ann (https://a.example) of acme"`, `"tenant": "acme"`, `"error": "the disk is full"`} {
		require.Contains(t, w.Body.String(), want)
	}
}

// With a key, a span has a pseudonym: always the same one for a principal, and it does not reveal
// the name without the key.
func TestPseudonyms(t *testing.T) {
	pseudonym := func(key string) string {
		_, attrs := served(t, WithPseudonyms([]byte(key)))
		user, _ := attrs.Value("enduser.id")
		return user.AsString()
	}
	one := pseudonym("the key of server one")
	require.Len(t, one, 32)
	require.Equal(t, one, pseudonym("the key of server one"))
	require.NotEqual(t, one, pseudonym("the key of server two"))
	require.NotContains(t, one, "ann")
}

func TestKeyOfPseudonymsThatCanBeGuessedIsAnError(t *testing.T) {
	for key, want := range map[string]string{
		"":                       "telemetry: the key of WithPseudonyms has 0 bytes and needs 16",
		"secret":                 "telemetry: the key of WithPseudonyms has 6 bytes and needs 16",
		strings.Repeat("0", 100): "telemetry: the key of WithPseudonyms has the same byte everywhere, so that it can be guessed: it must be random",
	} {
		_, err := New(WithPseudonyms([]byte(key)))
		require.EqualError(t, err, want)
	}
}

// The label of tenants exists only with its option, and the number of its values is bounded.
func TestTenantsAreBounded(t *testing.T) {
	scrape := func(tel *Telemetry) string {
		w := httptest.NewRecorder()
		tel.MetricsHandler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		return w.Body.String()
	}
	tel, err := New(WithTenants(2))
	require.NoError(t, err)
	call := func(p *auth.Principal) {
		_, op := tel.Begin(context.Background(), Info{Method: "tools/call", Target: "x", Principal: p})
		op.End(Outcome{})
	}
	call(nil)
	for i := range 5 {
		call(&auth.Principal{Subject: "s", Tenant: fmt.Sprint("t", i)})
	}
	text := scrape(tel)
	count := func(tenant string) int { return strings.Count(text, `tenant="`+tenant+`"`) }
	require.Positive(t, count(""))
	require.Positive(t, count("t0"))
	require.Positive(t, count("t1"))
	require.Zero(t, count("t2"))
	require.Positive(t, count("_OTHER"))
	require.Contains(t, text, `vitrine_limit_reached_total{limit="max_tenants"} 3`)

	plain, err := New()
	require.NoError(t, err)
	require.NotContains(t, scrape(plain), "tenant=")

	registry := prometheus.NewRegistry()
	_, err = New(WithRegistry(registry), WithTenants(2))
	require.NoError(t, err)
	_, err = New(WithRegistry(registry))
	require.ErrorContains(t, err, "other metrics under our names", "those that share a registry must agree")
}
