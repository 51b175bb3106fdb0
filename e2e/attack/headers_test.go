package attack

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// manyHeaders returns so many bytes of header lines with names of three letters. Each takes about
// a hundred bytes in memory.
func manyHeaders(bytes int) string {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789"
	var b strings.Builder
	for i := 0; b.Len() < bytes; i++ {
		fmt.Fprintf(&b, "%c%c%c:\r\n", letters[i/36/36%36], letters[i/36%36], letters[i%36])
	}
	return b.String()
}

// sendHeads sends text over each of n connections, from many addresses.
func (s *target) sendHeads(t *testing.T, n int, text string) []*wire {
	t.Helper()
	all := make([]*wire, n)
	for i := range all {
		all[i] = s.wire(t, fmt.Sprintf("127.0.%d.66", 1+i%200))
		_, _ = io.WriteString(all[i], text) // the server may refuse it before its end
	}
	return all
}

// Requests that stay open do not keep many headers: they are refused.
func TestManyHeadersAreNotKept(t *testing.T) {
	for name, bytes := range map[string]int{"64 KiB": 63 << 10, "16 KiB": 15 << 10} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := bounded(t)
			undisturbed := s.others(t)
			s.forgetPeak(t)
			listen := call{method: "subscriptions/listen", params: `"notifications":{"toolsListChanged":true}`}
			raw := s.rawEcho(1).set("Mcp-Method", listen.method).without("Mcp-Name")
			raw.body = listen.frame(1, true)
			raw.header = append(raw.header, strings.Split(strings.TrimSuffix(manyHeaders(bytes), "\r\n"), "\r\n")...)
			refused := 0
			for _, w := range s.sendHeads(t, 1000, raw.String()) {
				if resp, err := http.ReadResponse(w.in, nil); err == nil && resp.StatusCode == http.StatusRequestHeaderFieldsTooLarge {
					refused++
				}
			}
			undisturbed()
			s.fits(t, "1000 requests with many headers")
			if refused < 900 { // others may lose their connection before they have read the answer
				t.Errorf("%d of 1000 were refused", refused)
			}
		})
	}
}

// Heads that do not come to their end have a budget.
func TestStalledHeadsHaveABudget(t *testing.T) {
	t.Parallel()
	s := bounded(t)
	undisturbed := s.others(t)
	s.forgetPeak(t)
	s.sendHeads(t, 2000, "POST /mcp HTTP/1.1\r\nHost: "+s.host+"\r\n"+manyHeaders(19<<10))
	undisturbed()
	s.fits(t, "2000 stalled heads")
}
