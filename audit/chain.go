package audit

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
)

// A chain ties each line to the one before it: a line ends with its number, the code of the line
// before it, and its own code, which is the HMAC-SHA256 of everything before. Without the
// key, lines cannot be changed, inserted, removed or reordered unnoticed. What was cut off at the end is
// found by a head, the number and the code of the last line, that was published elsewhere.
type chain struct {
	mac  hash.Hash // nil without a key
	seq  uint64    // of the last line
	code []byte    // of the last line, in base64; empty before the first one
	sum  [digestSize]byte
}

// codeLength is the length of a code in base64.
var codeLength = base64.RawURLEncoding.EncodedLen(digestSize)

// macMember is what precedes the code at the end of a line.
const macMember = `,"mac":"`

func newChain(key []byte) *chain {
	if key == nil {
		return &chain{}
	}
	return &chain{mac: hmac.New(sha256.New, derive(key, "chain"))}
}

// end completes the line of a record.
func (c *chain) end(dst []byte, from int) []byte {
	if c.mac == nil {
		return append(dst, '}')
	}
	c.seq++
	dst = append(dst, `,"seq":`...)
	dst = strconv.AppendUint(dst, c.seq, 10)
	dst = append(append(append(dst, `,"prev":"`...), c.code...), '"')
	c.code = c.appendCode(c.code[:0], dst[from:])
	return append(append(append(dst, macMember...), c.code...), `"}`...)
}

// appendCode appends the code of a line, of which it gets what precedes the code.
func (c *chain) appendCode(dst, body []byte) []byte {
	c.mac.Reset()
	c.mac.Write(body)
	return base64.RawURLEncoding.AppendEncode(dst, c.mac.Sum(c.sum[:0]))
}

// A link is what a line says of its place in a chain, and what the verification needs to know.
type link struct {
	Seq       uint64 `json:"seq"`
	Prev      string `json:"prev"`
	Operation string `json:"operation"`
	Count     uint64 `json:"count"`
	Reason    string `json:"reason"`
	code      string
}

// codeAt returns the code at the end of a line.
func codeAt(text []byte) string {
	end := len(text) - len(`"}`)
	return string(text[end-codeLength : end])
}

// A Head is the place of a line in a chain, as the log publishes it from time to time.
type Head struct {
	Seq  uint64
	Code string
}

// String returns the head as "number:code".
func (h Head) String() string { return strconv.FormatUint(h.Seq, 10) + ":" + h.Code }

// ParseHead reads what [Head.String] has written.
func ParseHead(text string) (Head, error) {
	number, code, _ := strings.Cut(strings.TrimSpace(text), ":")
	seq, err := strconv.ParseUint(number, 10, 64)
	if err != nil || len(code) != codeLength {
		return Head{}, fmt.Errorf("audit: %q is no head of a chain: it has the form number:code, as the log record audit.head", text)
	}
	return Head{seq, code}, nil
}

var errNoCode = errors.New("the line has no code: it was changed, or does not belong to this log")

// read returns the place of a line in the chain, if its code is right.
func (c *chain) read(text []byte) (link, error) {
	body := len(text) - len(macMember) - codeLength - len(`"}`)
	if body < 0 || !bytes.HasPrefix(text[body:], []byte(macMember)) || !bytes.HasSuffix(text, []byte(`"}`)) {
		return link{}, errNoCode
	}
	l := link{code: codeAt(text)}
	if !hmac.Equal(c.appendCode(nil, text[:body]), []byte(l.code)) {
		return link{}, errors.New("the code is wrong: the line was changed, or has another key")
	}
	if err := json.Unmarshal(text, &l); err != nil {
		return link{}, fmt.Errorf("the line is no record: %w", err)
	}
	return l, nil
}

// resume goes on after the last line of an earlier process. It reports whether it could.
func (c *chain) resume(last []byte) bool {
	if c.mac == nil || last == nil {
		return false
	}
	l, err := c.read(last)
	if err != nil {
		return false
	}
	c.seq, c.code = l.Seq, []byte(l.code)
	return true
}

// tornReason is the reason of the record that begins the records of a process, if the process before it has left incomplete
// lines: it names the bytes of these lines, which stay in the file.
func tornReason(torn [][]byte) string {
	what := "an incomplete line"
	switch n := len(torn); {
	case n == 0:
		return ""
	case n > 1:
		what = strconv.Itoa(n) + incompleteLines
	}
	sum := sha256.Sum256(bytes.Join(torn, []byte("\n")))
	return afterTorn + what + ": " + base64.RawURLEncoding.EncodeToString(sum[:])
}

// What a reason of tornReason has around the number of the lines, if there are several.
const (
	afterTorn       = "after "
	incompleteLines = " incomplete lines"
)
