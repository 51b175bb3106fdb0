package console

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"testing"

	"github.com/vitrine-mcp/vitrine/internal/redistest"
)

// The page lists the replicas that share a store. Without a store there is no list.
func TestListOfReplicas(t *testing.T) {
	redis := redistest.Start(t, "e2e/redis")
	keys := filepath.Join(t.TempDir(), "keys")
	key := base64.StdEncoding.EncodeToString([]byte("a key of the tests, 32 bytes long")[:32])
	if err := os.WriteFile(keys, []byte(key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	shared := []string{"--store=redis://" + redis.Addr() + "/0", "--state-keys-file=" + keys}
	w := newWorld(t, shared...)
	newWorld(t, shared...)
	p := open(t, w)
	p.awaitText(t, "#replicas tbody", "this page is about it", "2.4.1", "serves")
	p.await(t, "document.querySelectorAll('#replicas tbody tr').length === 2 && !document.querySelector('.panel.replicas').hidden")
	p.clean(t)

	alone := open(t, newWorld(t))
	alone.awaitText(t, "#inflight tbody", "Nothing is in flight.")
	alone.await(t, "document.querySelector('.panel.replicas').hidden")
	alone.clean(t)
}
