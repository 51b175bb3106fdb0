package oauth

import (
	"cmp"

	"github.com/vitrine-mcp/vitrine/auth"
)

// A bound describes one field of [Limits].
type bound struct {
	field             *int
	standard          int
	name, unit, about string
}

// bounds returns the fields in the order of docs/limits.md.
func (l *Limits) bounds() []bound {
	return []bound{
		{&l.MaxTokenBytes, 16 << 10, limitTokenBytes, "bytes", "an access token"},
		{&l.MaxTokenCacheBytes, 16 << 20, limitCacheBytes, "bytes", "memory of the verified tokens that are remembered"},
		{&l.MaxAuthFailures, 20, limitFailures, "failures", "introspections in a minute that one address causes in vain"},
		{&l.MaxAuthAddresses, 10_000, limitAddresses, "addresses", "addresses whose failures are remembered"},
		{&l.MaxIntrospections, 32, limitIntrospections, "requests", "introspections at one time"},
		{&l.MaxKeyWaiters, 128, limitWaiters, "requests", "requests that wait for the keys of one issuer"},
		{&l.MaxIssuerBytes, 512 << 10, limitIssuerBytes, "bytes", "a document of an issuer"},
		{&l.MaxIssuerKeys, 100, limitIssuerKeys, "keys", "the keys of an issuer"},
	}
}

// setDefaults sets the fields that are 0 to their defaults.
func (l *Limits) setDefaults() {
	for _, b := range l.bounds() {
		*b.field = cmp.Or(*b.field, b.standard)
	}
}

// list describes the limits.
func (l Limits) list() (all []auth.Limit) {
	for _, b := range l.bounds() {
		all = append(all, auth.Limit{Name: b.name, Unit: b.unit, About: b.about, Value: *b.field, Default: b.standard})
	}
	return all
}
