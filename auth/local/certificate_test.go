package local_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/auth/local"
)

func verified(leaf *x509.Certificate) *auth.Caller {
	return &auth.Caller{Transport: "http", TLS: &tls.ConnectionState{
		PeerCertificates: []*x509.Certificate{leaf}, VerifiedChains: [][]*x509.Certificate{{leaf}},
	}}
}

func TestANameOfTheCertificateIsTheSubject(t *testing.T) {
	until := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(7), Issuer: pkix.Name{CommonName: "the CA"}, Subject: pkix.Name{CommonName: "common"}, NotAfter: until,
		URIs:     []*url.URL{{Scheme: "spiffe", Host: "example.org", Path: "/desk"}},
		DNSNames: []string{"desk.example.org"}, EmailAddresses: []string{"ann@example.org", "ann@example.com"},
	}
	for kind, want := range map[string]string{
		"": "spiffe://example.org/desk", "uri": "spiffe://example.org/desk", "dns": "desk.example.org", "cn": "common",
	} {
		c := &local.Certificates{Subject: kind, Scopes: []string{"files:read"}}
		require.NoError(t, c.Check())
		p, err := c.Authenticate(t.Context(), verified(leaf))
		require.NoError(t, err)
		require.Equal(t, &auth.Principal{Issuer: "CN=the CA", Subject: want, Scopes: []string{"files:read"}, Expires: until}, p)
	}
	p, err := (&local.Certificates{Subject: "email"}).Authenticate(t.Context(), verified(leaf))
	requireRefused(t, p, err, "certificate_name", false) // it has two
	require.Error(t, (&local.Certificates{Subject: "serial"}).Check())
}

func TestCertificatesThatWereNotVerifiedAreIgnored(t *testing.T) {
	leaf := &x509.Certificate{SerialNumber: big.NewInt(7), DNSNames: []string{"desk.example.org"}}
	for name, c := range map[string]*auth.Caller{
		"no TLS": {}, "no certificate": {TLS: &tls.ConnectionState{}},
		"not verified": {TLS: &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}}},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := (&local.Certificates{Subject: "dns"}).Authenticate(t.Context(), c)
			requireRefused(t, p, err, "certificate_missing", true)
		})
	}
}

// A certificate is verified when the connection begins. It ends with the first certificate of its chain, and with the last of
// several chains.
func TestCertificatesExpireOnALiveConnection(t *testing.T) {
	for name, ends := range map[string][][]time.Duration{
		"leaf":         {{time.Minute, time.Hour}},
		"intermediate": {{time.Hour, time.Minute, 2 * time.Hour}},
		"two chains":   {{time.Hour, time.Second}, {time.Hour, time.Minute}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				chains := make([][]*x509.Certificate, len(ends))
				for i, chain := range ends {
					for _, end := range chain {
						chains[i] = append(chains[i], &x509.Certificate{
							SerialNumber: big.NewInt(7), DNSNames: []string{"desk.example.org"}, NotAfter: began.Add(end),
						})
					}
				}
				caller := &auth.Caller{Transport: "http", TLS: &tls.ConnectionState{VerifiedChains: chains}}
				c := &local.Certificates{Subject: "dns"}
				time.Sleep(time.Minute - 1)
				p, err := c.Authenticate(t.Context(), caller)
				require.NoError(t, err)
				require.Equal(t, began.Add(time.Minute), p.Expires)
				time.Sleep(time.Nanosecond)
				p, err = c.Authenticate(t.Context(), caller)
				requireRefused(t, p, err, "certificate_expired", false)
			})
		})
	}
}
