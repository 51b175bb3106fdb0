package service

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"

	"github.com/vitrine-mcp/vitrine/internal/reload"
)

// TLSConfig has the settings for TLS. Its files are read again when they change, so that a
// certificate can be renewed without a restart. Connections that are open go on as they are. While the
// files have a mistake, what was read last stays in use (vitrine_credentials_stale_files).
type TLSConfig struct {
	// Cert and Key are the paths of the certificate with its chain, and of its key, in PEM. With
	// them both listeners speak TLS, and HTTP/2. On a loopback address the admin listener takes
	// requests without TLS, too.
	Cert, Key string
	// ClientCA is the path of the certificates, in PEM, of the authorities whose client
	// certificates are good. With it the MCP listener requires one, unless ClientOptional is set.
	// The admin listener takes one and never requires it, because probes have none.
	ClientCA       string
	ClientOptional bool
}

// A keyPair is what the files have, as the configurations of the two listeners.
type keyPair struct{ mcp, admin *tls.Config }

// newTLS reads the files. It returns nil if there is no certificate.
func newTLS(cfg TLSConfig) (*reload.Files[keyPair], error) {
	switch {
	case cfg.Cert == "" && cfg.Key == "" && cfg.ClientCA == "":
		return nil, nil
	case cfg.Cert == "" || cfg.Key == "":
		return nil, fmt.Errorf("service: TLS needs both --%s and --%s", flagTLSCert, flagTLSKey)
	}
	paths := []string{cfg.Cert, cfg.Key}
	if cfg.ClientCA != "" {
		paths = append(paths, cfg.ClientCA)
	}
	files, err := reload.Open(func(texts [][]byte) (keyPair, error) { return parseTLS(cfg, texts) },
		func(err error) {
			slog.Error("tls.reload", "error", err, "effect", "the certificate that was read last stays")
		}, paths...)
	if err != nil {
		return nil, fmt.Errorf("service: TLS: %w", err)
	}
	return files, nil
}

func parseTLS(cfg TLSConfig, texts [][]byte) (pair keyPair, err error) {
	cert, err := tls.X509KeyPair(texts[0], texts[1])
	if err != nil {
		return pair, fmt.Errorf("%s and %s: %w", cfg.Cert, cfg.Key, err)
	}
	base := &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	pair = keyPair{base, base.Clone()}
	if len(texts) == 2 {
		return pair, nil
	}
	clients := x509.NewCertPool()
	if !clients.AppendCertsFromPEM(texts[2]) {
		return pair, fmt.Errorf("%s: %w", cfg.ClientCA, errors.New("there is no certificate in PEM"))
	}
	pair.mcp.ClientCAs, pair.mcp.ClientAuth = clients, tls.RequireAndVerifyClientCert
	pair.admin.ClientCAs, pair.admin.ClientAuth = clients, tls.VerifyClientCertIfGiven
	if cfg.ClientOptional {
		pair.mcp.ClientAuth = tls.VerifyClientCertIfGiven
	}
	return pair, nil
}

// following returns a configuration that asks which one is good for each connection. Sessions of TLS
// are not resumed across a change, because their keys belong to the configuration.
func following(files *reload.Files[keyPair], of func(keyPair) *tls.Config) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return of(files.Value()), nil },
	}
}
