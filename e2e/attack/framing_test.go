package attack

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// smuggled is a request that must never be served: it is hidden in the body of another one.
func (s *target) smuggled() string {
	pay := s.rawEcho(666)
	pay.body = strings.Replace(pay.body, "hello", "smuggled", 1)
	return pay.String()
}

// A request of which two readers could see two different ends is refused, and nothing after it on
// its connection is served.
func TestAmbiguousFramingIsRefused(t *testing.T) {
	t.Parallel()
	s := attacked(t)
	undisturbed := s.others(t)
	before := s.admitted(t)
	echo := s.rawEcho(1)
	size := len(echo.body)
	whole := chunks(echo.body, 100) + "0\r\n\r\n"
	for name, raw := range map[string]string{
		"two lengths":                   echo.with(fmt.Sprintf("Content-Length: %d", size)).with("Content-Length: 5").String(),
		"lengths in a list":             echo.with(fmt.Sprintf("Content-Length: %d, 5", size)).String(),
		"a length with a sign":          echo.with(fmt.Sprintf("Content-Length: +%d", size)).String(),
		"a negative length":             echo.with("Content-Length: -1").String(),
		"a length in hexadecimal":       echo.with(fmt.Sprintf("Content-Length: 0x%x", size)).String(),
		"a length over two lines":       echo.with("Content-Length: 1\r\n 0").String(),
		"a length of 20 digits":         echo.with("Content-Length: 99999999999999999999").String(),
		"a length that is a text":       echo.with("Content-Length: all").String(),
		"a space before the colon":      echo.with(fmt.Sprintf("Content-Length : %d", size)).String(),
		"a NUL in the header":           echo.with("X-Name: a\x00b").String(),
		"a carriage return alone":       echo.with("X-Name: a\rb: c").String(),
		"a header without a colon":      echo.with("Content-Length").String(),
		"an unknown coding":             echo.with("Transfer-Encoding: xchunked").String(),
		"the coding identity":           echo.with("Transfer-Encoding: identity").String(),
		"two codings":                   echo.with("Transfer-Encoding: gzip, chunked").String(),
		"chunked twice":                 echo.chunked(whole).with("Transfer-Encoding: chunked").String(),
		"chunked with a vertical tab":   echo.with("Transfer-Encoding: \x0bchunked").String(),
		"chunked, then nothing":         echo.with("Transfer-Encoding: chunked, identity").String(),
		"a chunk that is too long":      echo.chunked("FFFFFFFFFFFFFFFFF\r\n" + echo.body).String(),
		"a chunk of 2^63 bytes":         echo.chunked("8000000000000000\r\n" + echo.body).String(),
		"a chunk of a negative size":    echo.chunked("-1\r\n" + echo.body).String(),
		"a chunk with a prefix 0x":      echo.chunked(fmt.Sprintf("0x%x\r\n%s\r\n0\r\n\r\n", size, echo.body)).String(),
		"a chunk without its end":       echo.chunked(fmt.Sprintf("%x\r\n%sxx0\r\n\r\n", size, echo.body)).String(),
		"chunks with bare line feeds":   echo.chunked(fmt.Sprintf("%x\n%s\n0\n\n", size, echo.body)).String(),
		"a bare line feed in an end":    echo.chunked(fmt.Sprintf("%x;a\n%s\r\n0\r\n\r\n", size, echo.body)).String(),
		"a megabyte of extensions":      echo.chunked(strings.Repeat("1;"+strings.Repeat("x", 4000)+"\r\n{\r\n", 256)).String(),
		"one extension without an end":  echo.chunked("1;" + strings.Repeat("x", 1<<20)).String(),
		"chunks of one byte, then none": echo.chunked(chunks(echo.body, 1)).String(),
		"a header of two megabytes":     echo.with("X-Large: " + strings.Repeat("x", 2<<20)).String(),
		"a hundred thousand headers":    echo.with(strings.Repeat("X: y\r\n", 100_000) + "X: y").String(),
	} {
		for i, r := range s.exchange(t, raw+s.smuggled()) {
			if i > 0 || r.Result != nil || r.status/100 != 4 && r.status != http.StatusNotImplemented {
				t.Errorf("%s: response %d: %d %.200s", name, i+1, r.status, r.body)
			}
		}
	}
	if after := s.admitted(t); after != before {
		t.Errorf("%d requests were admitted", after-before)
	}
	undisturbed()
}

// With a length and chunks at once the chunks count. What follows them does not look like a part
// of this request to anybody who counts by length, so that the connection ends or serves what
// follows as a request of its own; it never serves less or more than one request for the first.
func TestLengthAndChunksAtOnce(t *testing.T) {
	t.Parallel()
	s := attacked(t)
	undisturbed := s.others(t)
	echo := s.rawEcho(1)
	both := echo.with("Content-Length: 4").chunked(chunks(echo.body, 100) + "0\r\n\r\n")
	all := s.exchange(t, both.String())
	if len(all) != 1 || all[0].Result == nil && all[0].status != http.StatusBadRequest {
		t.Errorf("%+v", all)
	}
	hidden := echo.with(fmt.Sprintf("Content-Length: %d", len("0\r\n\r\n"+s.smuggled()))).chunked("0\r\n\r\n" + s.smuggled())
	for i, r := range s.exchange(t, hidden.String()) {
		if i == 0 && r.Result != nil {
			t.Errorf("an empty body was served: %s", r.body)
		}
	}
	undisturbed()
}

// Requests in one write are answered one after the other, in order, each with its own id.
func TestPipelinedRequestsAreAnsweredInOrder(t *testing.T) {
	t.Parallel()
	s := attacked(t)
	undisturbed := s.others(t)
	const n = 50
	var all strings.Builder
	for i := range n {
		raw := s.rawEcho(i)
		if i%2 == 1 {
			raw = raw.chunked(chunks(raw.body, 7) + "0\r\nMcp-Name: paid\r\n\r\n") // a trailer is no header
		}
		all.WriteString(raw.String())
	}
	got := s.exchange(t, all.String())
	if len(got) != n {
		t.Fatalf("%d responses, want %d", len(got), n)
	}
	for i, r := range got {
		if string(r.ID) != fmt.Sprint(i) || r.text() != "hello" {
			t.Errorf("response %d: %s", i, r.body)
		}
	}
	undisturbed()
}

// Bytes behind the end of a body are another request, and never a part of the first.
func TestBytesBehindABodyAreAnotherRequest(t *testing.T) {
	t.Parallel()
	s := attacked(t)
	undisturbed := s.others(t)
	all := s.exchange(t, s.rawEcho(1).String()+"garbage that is no request\r\n\r\n")
	if len(all) != 2 || all[0].text() != "hello" || all[1].status != http.StatusBadRequest {
		t.Errorf("%+v", all)
	}
	all = s.exchange(t, s.rawEcho(1).String()+s.rawEcho(2).String())
	if len(all) != 2 || all[0].text() != "hello" || string(all[1].ID) != "2" {
		t.Errorf("%+v", all)
	}
	undisturbed()
}

// Other first lines, paths and methods reach no tool.
func TestOddRequestLinesServeNothing(t *testing.T) {
	t.Parallel()
	s := attacked(t)
	undisturbed := s.others(t)
	before := s.admitted(t)
	for _, line := range []string{
		"POST /mcp", "POST /mcp HTTP/0.9", "POST /mcp HTTP/3.0", "POST /mcp HTTP/1.1 x", "POST  /mcp HTTP/1.1", "POST\t/mcp\tHTTP/1.1",
		"post /mcp HTTP/1.1", "PUT /mcp HTTP/1.1", "PATCH /mcp HTTP/1.1", "TRACE /mcp HTTP/1.1", "CONNECT /mcp HTTP/1.1",
		"HEAD /mcp HTTP/1.1", "GET /mcp HTTP/1.1", "DELETE /mcp HTTP/1.1", "POST /MCP HTTP/1.1", "POST /mcp/ HTTP/1.1", "POST //mcp HTTP/1.1",
		"POST /x/../mcp HTTP/1.1", "POST /mcp%2f HTTP/1.1", "POST /mcp%00 HTTP/1.1", "POST /mcp;x HTTP/1.1", "POST * HTTP/1.1",
		"PRI * HTTP/2.0", "\x16\x03\x01\x02\x00\x01", "",
	} {
		raw := s.rawEcho(1)
		raw.line = line
		for i, r := range s.exchange(t, raw.String()) {
			redirect := r.status == http.StatusMovedPermanently || r.status == http.StatusTemporaryRedirect || r.status == http.StatusPermanentRedirect
			if i == 0 && (r.Result != nil || r.status/100 == 2 || r.status/100 == 3 && !redirect) {
				t.Errorf("%q: %d %.200s", line, r.status, r.body)
			}
		}
	}
	if after := s.admitted(t); after != before {
		t.Errorf("%d requests were admitted", after-before)
	}
	undisturbed()
}

// A client that expects a sign to go on gets one; another expectation fails.
func TestExpectations(t *testing.T) {
	t.Parallel()
	s := attacked(t)
	undisturbed := s.others(t)
	w := s.wire(t, attacker)
	echo := s.rawEcho(1).with("Expect: 100-continue").String()
	head, body, _ := strings.Cut(echo, "\r\n\r\n")
	if _, err := io.WriteString(w, head+"\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := w.in.ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") {
		t.Fatalf("%q %v", line, err)
	}
	_, _ = w.in.ReadString('\n')
	if _, err := io.WriteString(w, body); err != nil {
		t.Fatal(err)
	}
	if r, err := w.response(); err != nil || r.text() != "hello" {
		t.Errorf("%v %s", err, r.body)
	}
	all := s.exchange(t, s.rawEcho(1).with("Expect: the worst").String())
	if len(all) != 1 || all[0].status != http.StatusExpectationFailed {
		t.Errorf("%+v", all)
	}
	undisturbed()
}

// A body that says it is encoded is refused unread: nothing is ever unpacked.
func TestEncodedBodiesAreRefused(t *testing.T) {
	t.Parallel()
	s := attacked(t)
	undisturbed := s.others(t)
	before := s.admitted(t)
	bomb := strings.Repeat("\x1f\x8b\x08\x00", 1000)
	for _, coding := range []string{"gzip", "GZIP", "deflate", "br", "zstd", "compress", "gzip, identity", "identity, gzip", "x-gzip", "aws-chunked"} {
		raw := s.rawEcho(1).with("Content-Encoding: " + coding)
		for _, body := range []string{raw.body, bomb} {
			raw.body = body
			all := s.exchange(t, raw.String())
			if len(all) != 1 || all[0].status != http.StatusUnsupportedMediaType || all[0].header.Get("Accept-Encoding") != "identity" {
				t.Errorf("%s: %+v", coding, all)
			}
		}
	}
	if after := s.admitted(t); after != before {
		t.Errorf("%d requests were admitted", after-before)
	}
	undisturbed()
}
