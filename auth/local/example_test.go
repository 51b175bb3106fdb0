package local_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/auth/local"
)

// Programs with client certificates and people with tokens call the same server: give the
// authenticator to server.WithAuthenticator.
func Example() {
	dir, _ := os.MkdirTemp("", "example")
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "tokens")
	line := fmt.Sprintf("%x ann scopes=forecast\n", sha256.Sum256([]byte("sesame")))
	if err := os.WriteFile(path, []byte(line), 0o600); err != nil {
		fmt.Println(err)
	}

	tokens, err := local.LoadTokens(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	who := auth.FirstOf(&local.Certificates{Subject: "dns"}, tokens)
	for _, header := range []string{"Bearer sesame", "Bearer open"} {
		p, err := who.Authenticate(context.Background(), &auth.Caller{Header: http.Header{"Authorization": {header}}})
		fmt.Println(p, err)
	}

	// Output:
	// ann <nil>
	//  refused: token_unknown: auth: there are no credentials that this authenticator knows
}
