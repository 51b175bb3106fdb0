package service

import (
	"time"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// credentialFiles tells telemetry the state of the files with credentials.
type credentialFiles struct {
	*access
	callers auth.Authenticator // of the server: that of the configuration or of the program; may be nil
}

// Snapshot implements [telemetry.Source]. It looks at the files, because on an idle server nobody else does.
func (f credentialFiles) Snapshot() *telemetry.Snapshot {
	s := &telemetry.Snapshot{At: time.Now()}
	s.Credentials.Stale = map[string]bool{}
	if f.certificates != nil {
		s.Credentials.Stale[telemetry.CredentialsTLS] = f.certificates.Stale()
		if leaf := f.certificates.Value().mcp.Certificates[0].Leaf; leaf != nil { // GODEBUG=x509keypairleaf=0
			s.Credentials.CertificateExpiry = leaf.NotAfter
		}
	}
	if f.adminToken != nil {
		s.Credentials.Stale[telemetry.CredentialsAdminToken] = f.adminToken.files.Stale()
	}
	if reads, stale := staleTokens(f.callers); reads {
		s.Credentials.Stale[telemetry.CredentialsTokens] = stale
	}
	return s
}

// staleTokens reports whether an authenticator, or one of those that it asks, reads a file of tokens, and whether the present
// content of such a file is not in use.
func staleTokens(by auth.Authenticator) (reads, stale bool) {
	defer func() { // of an authenticator of the program
		if recover() != nil {
			reads, stale = true, true
		}
	}()
	switch by := by.(type) {
	case interface{ Stale() bool }: // such as local.Tokens
		return true, by.Stale()
	case interface{ Unwrap() []auth.Authenticator }: // such as auth.FirstOf
		for _, one := range by.Unwrap() {
			itReads, itIsStale := staleTokens(one)
			reads, stale = reads || itReads, stale || itIsStale
		}
	}
	return reads, stale
}
