//go:build unix

package redisstore_test

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
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/redistest"
	"github.com/vitrine-mcp/vitrine/store"
	"github.com/vitrine-mcp/vitrine/store/redisstore"
	"github.com/vitrine-mcp/vitrine/store/storetest"
)

// documentedUser returns the rights of a user in docs/replicas.md: the first one is for one server, the second one for a
// cluster.
func documentedUser(t *testing.T, which int) []string {
	t.Helper()
	page, err := os.ReadFile("../../docs/replicas.md")
	require.NoError(t, err)
	users := strings.Split(string(page), "\nACL SETUSER vitrine ")
	require.Len(t, users, 3)
	line, _, _ := strings.Cut(users[1+which], "\n")
	return strings.Fields(line)
}

// withUser runs a server that knows a user with these rights, and no other.
func withUser(t *testing.T, rights []string) *redistest.Server {
	t.Helper()
	server := start(t)
	client := dial(t, server.Addr())
	args := []any{"acl", "setuser", "vitrine"}
	for _, right := range rights {
		args = append(args, right)
	}
	require.NoError(t, client.Do(t.Context(), args...).Err())
	require.NoError(t, client.Do(t.Context(), "acl", "setuser", "default", "off").Err())
	return server
}

// The user of docs/replicas.md can do all that the store does.
func TestDocumentedUserSuffices(t *testing.T) {
	server := withUser(t, documentedUser(t, 0))
	url := "redis://vitrine:secret@" + server.Addr()
	storetest.Values(t, func(t *testing.T) store.Values { return open(t, url) }, time.Sleep)
	storetest.Signals(t, func(t *testing.T) store.Signals { return open(t, url) })
	storetest.Events(t, func(t *testing.T) store.EventLog { return open(t, url) }, time.Sleep)
	storetest.Buckets(t, func(t *testing.T) store.Buckets { return open(t, url) }, time.Sleep)
	s := open(t, url)
	require.NoError(t, s.Check(t.Context()))
	require.NoError(t, s.Ping(t.Context()))
}

// Each right of the documented user is needed: without it a call fails and names what is missing.
func TestEachDocumentedRightIsNeeded(t *testing.T) {
	rights := documentedUser(t, 0)
	for i, right := range rights {
		if !strings.HasPrefix(right, "+") && !strings.HasPrefix(right, "~") && !strings.HasPrefix(right, "&") {
			continue
		}
		t.Run(right, func(t *testing.T) {
			less := append(append([]string{}, rights[:i]...), rights[i+1:]...)
			server := withUser(t, less)
			s := open(t, "redis://vitrine:secret@"+server.Addr())
			err := useAll(t, s)
			require.Error(t, err)
			require.Regexp(t, "NOPERM|user executing the script can't run this command", err.Error())
			require.ErrorIs(t, err, store.ErrRefused)
		})
	}
}

// useAll makes each call of a store once, and returns the first error.
func useAll(t *testing.T, s *redisstore.Store) error {
	ctx := t.Context()
	if err := s.Ping(ctx); err != nil {
		return err
	}
	if err := s.Check(ctx); err != nil {
		return err
	}
	if _, err := s.Claim(ctx, "key", nil, time.Minute); err != nil {
		return err
	}
	for _, life := range []time.Duration{time.Minute, 0} {
		err := s.Update(ctx, "key", func([]byte) ([]byte, time.Duration, error) { return nil, life, nil })
		if err != nil {
			return err
		}
	}
	bounds := store.EventBounds{Events: 2, Bytes: 1 << 20, Life: time.Minute}
	for _, e := range []store.Event{{Stream: "a", Seq: 1}, {Stream: "b", Seq: 1}, {Stream: "b", Seq: 2}} {
		if _, err := s.Append(ctx, "session", e, bounds); err != nil {
			return err
		}
	}
	if _, err := s.After(ctx, "session", "b", 0); err != nil {
		return err
	}
	if err := s.Delete(ctx, "session"); err != nil {
		return err
	}
	if _, err := s.Take(ctx, "bucket", store.Bucket{Burst: 1, Fill: time.Minute}, 0, 1); err != nil {
		return err
	}
	if err := s.Listen(ctx, []string{"a"}, func(string, []byte) {}, func() {}); err != nil {
		return err
	}
	return s.Publish(ctx, "a", nil)
}

func TestWrongPassword(t *testing.T) {
	server := withUser(t, documentedUser(t, 0))
	_, err := open(t, "redis://vitrine:guess@"+server.Addr()).Get(t.Context(), "key")
	require.ErrorContains(t, err, "WRONGPASS")
	require.NotContains(t, err.Error(), "guess")
	_, err = open(t, "redis://"+server.Addr()).Get(t.Context(), "key")
	require.ErrorContains(t, err, "NOAUTH")
}

// certificate writes a certificate for 127.0.0.1 and its key, and returns their files and itself.
func certificate(t *testing.T) (certFile, keyFile string, cert *x509.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "redis"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	cert, err = x509.ParseCertificate(der)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	write := func(name, kind string, data []byte) string {
		file := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}), 0o600))
		return file
	}
	return write("cert.pem", "CERTIFICATE", der), write("key.pem", "PRIVATE KEY", private), cert
}

// Over TLS, a store verifies the server's certificate unless the URL says otherwise.
func TestTLS(t *testing.T) {
	certFile, keyFile, cert := certificate(t)
	server := start(t, "--tls-auth-clients", "no", "--tls-cert-file", certFile, "--tls-key-file", keyFile,
		"--tls-ca-cert-file", certFile, "--port", "0", "--tls-port", redistest.Port)
	_, err := open(t, "rediss://"+server.Addr()).Get(t.Context(), "key")
	require.ErrorContains(t, err, "certificate")
	_, err = open(t, "redis://"+server.Addr()).Get(t.Context(), "key")
	require.Error(t, err)
	require.NoError(t, useAll(t, open(t, "rediss://"+server.Addr()+"?skip_verify=true")))

	roots := x509.NewCertPool()
	roots.AddCert(cert)
	client := redis.NewClient(&redis.Options{
		Addr: server.Addr(), ContextTimeoutEnabled: true, TLSConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
	})
	defer client.Close()
	require.NoError(t, useAll(t, redisstore.New(client, "test:")))
}
