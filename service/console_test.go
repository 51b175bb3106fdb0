package service_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/service"
)

// getAs asks the admin listener with the Accept header of a client.
func (r *running) getAs(t *testing.T, path, accept string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, r.Admin+path, nil)
	require.NoError(t, err)
	req.Header.Set("Accept", accept)
	resp, err := r.client.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp, string(body)
}

const browserAccepts = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"

// TestConsole checks that a browser gets the page, which loads only its own files, and that a
// program gets the index as text.
func TestConsole(t *testing.T) {
	srv, _ := newGated(t, false)
	r := start(t, srv, "--jaeger-url=http://jaeger.example:16686/", "--prometheus-url=http://prometheus.example:9090/")
	for _, accept := range []string{"", "*/*", "text/plain"} {
		resp, text := r.getAs(t, "/", accept)
		assert.Equal(t, "text/plain; charset=utf-8", resp.Header.Get("Content-Type"), accept)
		assert.Contains(t, text, "/debug/traces", accept)
	}
	resp, page := r.getAs(t, "/", browserAccepts)
	assert.Equal(t, "text/html; charset=utf-8", resp.Header.Get("Content-Type"))
	assert.Contains(t, resp.Header.Get("Vary"), "Accept")
	assert.Contains(t, page, `data-jaeger="http://jaeger.example:16686" data-prometheus="http://prometheus.example:9090"`)
	assert.Contains(t, page, "testing <span class=\"version\">1.2.3</span>")
	assert.NotRegexp(t, `(?i)<script[^>]*>[^<]|<style| style=| on[a-z]+=`, page, "nothing is inline")
	secured(t, resp)

	files := regexp.MustCompile(`(?:src|href)="(console/[^"]+)"`).FindAllStringSubmatch(page, -1)
	assert.Len(t, files, 3)
	seen := map[string]bool{}
	for queue := []string{"console/console.js", files[0][1], files[1][1]}; len(queue) > 0; queue = queue[1:] {
		name := queue[0]
		if seen[name] {
			continue
		}
		seen[name] = true
		resp, text := r.getAs(t, "/"+name, "*/*")
		require.Equal(t, http.StatusOK, resp.StatusCode, name)
		secured(t, resp)
		assert.NotEmpty(t, resp.Header.Get("ETag"))
		assert.NotRegexp(t, `innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(`, text, name)
		assert.Empty(t, foreign(text), name)
		for _, m := range regexp.MustCompile(`from '\./([^']+)'`).FindAllStringSubmatch(text, -1) {
			queue = append(queue, "console/"+m[1])
		}
	}
	assert.GreaterOrEqual(t, len(seen), 6)
	status, _ := r.get(t, "/console/index.html")
	assert.Equal(t, http.StatusNotFound, status, "the template is no page")
}

// foreign returns the addresses in a text that are not names of SVG.
func foreign(text string) []string {
	return slices.DeleteFunc(regexp.MustCompile(`(https?:)?//[a-z][^\s'"]*\.[a-z]+`).FindAllString(text, -1),
		func(u string) bool { return strings.HasPrefix(u, "http://www.w3.org") })
}

func secured(t *testing.T, resp *http.Response) {
	t.Helper()
	policy := resp.Header.Get("Content-Security-Policy")
	assert.Contains(t, policy, "default-src 'none'")
	assert.NotContains(t, policy, "unsafe")
	assert.NotContains(t, policy, "http")
	assert.Equal(t, "nosniff", resp.Header.Get("X-Content-Type-Options"))
}

// TestLinkedPages checks that only HTTP URLs are accepted, because they become links.
func TestLinkedPages(t *testing.T) {
	for _, bad := range []string{"javascript:alert(1)", "localhost:16686", "http://", "http://x/?q=1", "http://x/#f", "//x"} {
		srv, _ := newGated(t, false)
		over, cancel := context.WithCancel(t.Context())
		cancel() // so that a Run which takes it ends
		for _, name := range []string{"jaeger-url", "prometheus-url"} {
			err := service.Run(over, srv, quiet("--"+name+"="+bad)...)
			assert.ErrorContains(t, err, name, bad)
		}
	}
}

// TestTracesAndLive checks the pages that the console reads, and that shutdown does not wait for
// an open stream.
func TestTracesAndLive(t *testing.T) {
	srv, _ := newGated(t, false)
	r := start(t, srv)
	require.NoError(t, r.call("echo", `{"text":"hello"}`).err)
	var list string
	require.Eventually(t, func() bool {
		_, list = r.get(t, "/debug/traces")
		return strings.Contains(list, `"echo"`)
	}, patience, patience/1000)
	status, detail := r.get(t, "/debug/traces/1")
	assert.Equal(t, http.StatusOK, status)
	assert.Contains(t, detail, `"phases"`)

	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, r.Admin+"/debug/live", nil)
	require.NoError(t, err)
	live, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	require.NoError(t, err)
	defer live.Body.Close()
	lines := bufio.NewScanner(live.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "data: ") {
	}
	assert.Contains(t, lines.Text(), `"in_flight"`)
	assert.Contains(t, lines.Text(), `"readiness":{"state":"ready","since":"`)
	r.stop()
	for lines.Scan() { // to its end, which the server makes
	}
	require.NoError(t, lines.Err(), "the stream was ended and not cut")
	require.NoError(t, r.wait(t))
}
