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
		s.Credentials.CertificateExpiry = f.certificates.Value().mcp.Certificates[0].Leaf.NotAfter
	}
	if f.adminToken != nil {
		s.Credentials.Stale[telemetry.CredentialsAdminToken] = f.adminToken.files.Stale()
	}
	if reads, stale := staleTokens(f.callers); reads {
		s.Credentials.Stale[telemetry.CredentialsTokens] = stale
	}
	return s
}

// staleTokens reports whether an authenticator reads a file of tokens, and whether the present content of the
// file is not in use. Of several authenticators one with such a file is enough.
func staleTokens(by auth.Authenticator) (reads, stale bool) {
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
