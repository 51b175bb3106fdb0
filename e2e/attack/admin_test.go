package attack

import (
	"context"
	"io"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"
)

// Profiles cannot be used as a weapon: one is made at a time, and for a minute at most.
func TestProfilesAreBounded(t *testing.T) {
	t.Parallel()
	s := attacked(t)
	undisturbed := s.others(t)
	for path, status := range map[string]int{
		"/debug/pprof/profile?seconds=3600": http.StatusBadRequest, "/debug/pprof/trace?seconds=3600": http.StatusBadRequest,
		"/debug/pprof/profile?seconds=1e9": http.StatusBadRequest, "/debug/pprof/trace?seconds=61": http.StatusBadRequest,
		"/debug/pprof/heap?seconds=3600": http.StatusOK, // which takes no time
	} {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		req, _ := http.NewRequestWithContext(ctx, http.MethodGet, s.admin+path, nil)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Errorf("%s is being made: %v", path, err)
		} else {
			// The next one is refused until this one is over.
			if _, err := io.Copy(io.Discard, resp.Body); err != nil {
				t.Errorf("%s: %v", path, err)
			}
			if resp.Body.Close(); resp.StatusCode != status {
				t.Errorf("%s: %d", path, resp.StatusCode)
			}
		}
		cancel()
	}
	var mu sync.Mutex
	statuses := map[int]int{}
	var all sync.WaitGroup
	for i := range 48 {
		all.Go(func() {
			resp, _, err := s.get([]string{"/debug/pprof/profile?seconds=2", "/debug/pprof/goroutine?debug=2", "/debug/pprof/trace?seconds=2"}[i%3])
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			statuses[resp.StatusCode]++
		})
	}
	all.Wait()
	// Dumps that come one after the other may be made, until one that takes two seconds begins.
	if refused := statuses[http.StatusServiceUnavailable]; refused == 0 || statuses[http.StatusOK] == 0 || refused+statuses[http.StatusOK] != 48 {
		t.Errorf("48 profiles at once: %v, want one at a time", statuses)
	}
	undisturbed()
}

// With a token file the pages for operators need its credential, but for health and metrics. This
// server listens on loopback, where it would need none without the file. That it refuses other
// machines without a file is tested in package service, because no test listens for them.
func TestAdminPagesNeedTheCredentialOfTheTokenFile(t *testing.T) {
	t.Parallel()
	file := t.TempDir() + "/token"
	const token = "a-credential-of-32-letters-or-so"
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := attacked(t, "--admin-token-file", file)
	s.credential = token
	undisturbed := s.others(t)
	s.credential = "" // the requests below bring their own, or none
	for _, path := range []string{"/", "/debug/requests", "/debug/traces", "/debug/live", "/debug/pprof/", "/debug/pprof/heap", "/debug/flight"} {
		for _, credential := range []string{"", "Bearer ", "Bearer wrong", "Bearer " + token[:len(token)-1], "Bearer " + token + "x", "Basic " + token, token} {
			resp, body, err := s.get(path, "Authorization", credential)
			if err != nil || resp.StatusCode != http.StatusUnauthorized {
				t.Errorf("%s with %q: %v %.100s", path, credential, err, body)
			}
		}
	}
	for _, path := range []string{"/livez", "/readyz", "/metrics"} {
		if resp, _, err := s.get(path); err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("%s without a credential: %v", path, err)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	authorized := func(path string) int {
		resp, _, err := s.get(path, "Authorization", "Bearer "+token)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode
	}
	if status := authorized("/debug/requests"); status != http.StatusOK {
		t.Errorf("with the credential: %d", status)
	}
	s.credential = token
	undisturbed()
}
