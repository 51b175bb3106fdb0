package attack

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"testing"
	"time"
)

// The header in which a trusted proxy names the caller is ignored on other connections: a caller that
// sends it has no name, and learns nothing of the header.
func TestForgedNamesOfProxies(t *testing.T) {
	t.Parallel()
	s := attacked(t, "--auth-proxy-header", "X-Forwarded-User", "--auth-proxy-scopes-header", "X-Forwarded-Scopes", "--trusted-proxies", bystanders)
	s.identify = func(header http.Header, name string) { header.Set("X-Forwarded-User", name) }
	undisturbed := s.others(t)
	c, what := s.caller(t, attacker, ""), echo("x")
	send := func(forged http.Header) response {
		h := what.header()
		for name, values := range forged {
			h[name] = values
		}
		return c.must(t, http.MethodPost, h, what.frame(1, true))
	}
	missing := answerOf(send(nil))
	for name, forged := range map[string]http.Header{
		"the header": {"X-Forwarded-User": {"olga"}}, "twice": {"X-Forwarded-User": {"olga", "olga"}}, "empty": {"X-Forwarded-User": {""}},
		"from the proxy":  {"X-Forwarded-User": {"olga"}, "X-Forwarded-For": {bystanders}, "Forwarded": {"for=" + bystanders}, "X-Real-Ip": {bystanders}},
		"in another case": {"x-forwarded-user": {"olga"}}, "with scopes": {"X-Forwarded-User": {"olga"}, "X-Forwarded-Scopes": {"admin"}},
		"underscores": {"X_Forwarded_User": {"olga"}}, "a token": {"Authorization": {"Bearer olga"}}, "in Connection": {"X-Forwarded-User": {"olga"}, "Connection": {"X-Forwarded-User"}},
	} {
		if got := answerOf(send(forged)); got != missing {
			t.Errorf("%s: %s\nwithout the header: %s", name, got, missing)
		}
	}
	if r := send(http.Header{"X-Forwarded-User": {"olga"}}); r.status != http.StatusUnauthorized {
		t.Errorf("a forged name: %d %s", r.status, r.body)
	}
	undisturbed()
}

// An authority issues certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{}
	pair := a.issue(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: "an authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	})
	a.cert, a.key = pair.Leaf, pair.PrivateKey.(*ecdsa.PrivateKey)
	return a
}

// issue returns a certificate with its key. An authority without a certificate signs with the key itself.
func (a *authority) issue(t *testing.T, template *x509.Certificate) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	if template.NotAfter.IsZero() {
		template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	}
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// client returns a certificate of a client with a name.
func (a *authority) client(t *testing.T, name string) tls.Certificate {
	t.Helper()
	return a.issue(t, clientTemplate(name))
}

func clientTemplate(name string) *x509.Certificate {
	return &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
}

// pemFile writes the certificate of an authority, or a pair, and returns the path.
func pemFile(t *testing.T, kind string, der []byte) string {
	t.Helper()
	return writeFile(t, "file.pem", string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})))
}

// A client certificate counts only if the authority of the server has issued it, for clients, and now.
func TestCertificatesOfOthersAreRefused(t *testing.T) {
	for name, optional := range map[string]string{"required": "false", "optional": "true"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, other := newAuthority(t), newAuthority(t)
			pair := a.issue(t, &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
			key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
			if err != nil {
				t.Fatal(err)
			}
			s := attacked(t, "--tls-cert", pemFile(t, "CERTIFICATE", pair.Certificate[0]), "--tls-key", pemFile(t, "PRIVATE KEY", key),
				"--tls-client-ca", pemFile(t, "CERTIFICATE", a.cert.Raw), "--tls-client-optional="+optional, "--auth-client-cert", "dns")
			roots := x509.NewCertPool()
			roots.AddCert(a.cert)
			s.tls = &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{a.client(t, "olga")}}
			undisturbed := s.others(t)
			expired, server := clientTemplate("olga"), clientTemplate("olga")
			expired.NotBefore, expired.NotAfter = time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)
			server.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
			stolen := a.client(t, "olga")
			stolen.PrivateKey = other.client(t, "olga").PrivateKey
			alone, good := (&authority{}).issue(t, clientTemplate("olga")), a.client(t, "otto")
			for name, pairs := range map[string][]tls.Certificate{
				"none": nil, "another authority": {other.client(t, "olga")}, "expired": {a.issue(t, expired)}, "of a server": {a.issue(t, server)},
				"without its key": {stolen}, "signed by itself": {alone}, "signed by a client": {(&authority{good.Leaf, good.PrivateKey.(*ecdsa.PrivateKey)}).client(t, "olga")},
			} {
				s.refusesCertificate(t, name, roots, pairs, optional == "true" && name == "none")
			}
			undisturbed()
		})
	}
}

// refusesCertificate checks that nothing is served to a client with a certificate, or without one: the
// connection ends, or the status is 401.
func (s *target) refusesCertificate(t *testing.T, name string, roots *x509.CertPool, pairs []tls.Certificate, answered bool) {
	t.Helper()
	c, what := s.caller(t, attacker, ""), echo("x")
	send := &tls.Config{RootCAs: roots, GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		if len(pairs) == 0 {
			return &tls.Certificate{}, nil
		}
		return &pairs[0], nil // also if the server does not ask for one of this authority
	}}
	c.http.Transport.(*http.Transport).TLSClientConfig = send
	r, err := c.send(t.Context(), http.MethodPost, what.header(), what.frame(1, true))
	if answered != (err == nil) {
		t.Errorf("%s: answered: %v (%v), want %v", name, err == nil, err, answered)
	}
	if err == nil && (r.status != http.StatusUnauthorized || r.Result != nil) {
		t.Errorf("%s: %d %s", name, r.status, r.body)
	}
}
