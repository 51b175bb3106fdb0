package audit

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// maxVerifiedLine bounds the lines that a verification reads, and maxFaults the faults that it tells.
const (
	maxVerifiedLine = 4 << 20
	maxFaults       = 100
)

// A Verifier checks the chain of the lines that a [Log] has written. Make one with [NewVerifier], read
// all files from the oldest to the newest, and ask for the result. It is for one goroutine.
type Verifier struct {
	chain *chain
	from  uint64
	heads []Head

	began  bool
	last   link
	torn   tornLines // that came after the last complete line
	result Verification
}

// A Verification is what a [Verifier] has found.
type Verification struct {
	// Lines are the lines that belong to the chain, First and Last the numbers of the first and the
	// last of them.
	Lines       int
	First, Last uint64
	// Head is that of the last line.
	Head Head
	// Lost is how many records the log itself says that it has lost.
	Lost uint64
	// Closed says that the last line is the one with which a process ends. Without it the process still
	// runs or has died, or the end was cut off: only a published head can tell.
	Closed bool
	// Torn says that the last line is not complete. There may be more than one such line.
	Torn bool
	// Faults say what is wrong, and where: at most 100. More is the number of all others.
	Faults []string
	More   int
}

// NewVerifier returns a verifier for the lines of a log with this key. from is the number of the first
// line that must be there: 1, unless older files were deleted because of their age.
func NewVerifier(key []byte, from uint64) (*Verifier, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	return &Verifier{chain: newChain(key), from: max(from, 1)}, nil
}

// Expect names heads that were published: the lines must be there, with these codes. It must be called
// before the first Read.
func (v *Verifier) Expect(heads ...Head) { v.heads = append(v.heads, heads...) }

// Read reads the lines of a file. The error is that of r, or says that a line is too long.
func (v *Verifier) Read(name string, r io.Reader) error {
	lines := bufio.NewReaderSize(r, maxVerifiedLine)
	for n := 1; ; n++ {
		text, err := lines.ReadSlice('\n')
		whole := err == nil
		if text = bytes.TrimSuffix(text, []byte("\n")); len(text) > 0 {
			v.line(fmt.Sprintf("%s:%d", name, n), text, whole)
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("%s:%d: %w", name, n, err)
		}
	}
}

func (v *Verifier) fault(format string, args ...any) {
	if len(v.result.Faults) == maxFaults {
		v.result.More++
		return
	}
	v.result.Faults = append(v.result.Faults, fmt.Sprintf(format, args...))
}

// line checks one line. whole says that it has its newline.
func (v *Verifier) line(where string, text []byte, whole bool) {
	l, err := v.chain.read(text)
	if err != nil {
		v.wrong(badLine{bytes.Clone(text), fmt.Sprintf("%s: %v", where, err), whole})
		return
	}
	v.settle(text, &l)
	v.order(where, l)
	for _, h := range v.heads {
		if h.Seq == l.Seq && h.Code != l.code {
			v.fault("%s: line %d is not the one whose head was published", where, l.Seq)
		}
	}
	if l.Operation == OperationLost {
		v.result.Lost += l.Count
	}
	v.result.Closed = l.Operation == OperationClose
	v.result.Lines++
	v.result.Last, v.result.Head = l.Seq, Head{l.Seq, l.code}
	v.last = l
}

// order checks that a line follows the one before it.
func (v *Verifier) order(where string, l link) {
	before := v.last
	switch {
	case !v.began:
		v.began = true
		v.result.First = l.Seq
		if l.Seq > v.from {
			v.fault("%s: the lines %d to %d are missing: name the older files too, or the number of the first line, if the older ones were deleted", where, v.from, l.Seq-1)
		}
	case l.Seq == before.Seq+1 && l.Prev == before.code:
	case l.Seq > before.Seq+1:
		v.fault("%s: the lines %d to %d are missing", where, before.Seq+1, l.Seq-1)
	case l.Seq == before.Seq+1:
		v.fault("%s: line %d does not follow the line before it: that one is of another chain", where, l.Seq)
	case l.Seq == 1:
		v.fault("%s: another chain begins: the end of the one before it was lost, or its key was another", where)
	default:
		v.fault("%s: line %d comes after line %d: it was repeated or moved, or the lines after it were written anew", where, l.Seq, before.Seq)
	}
}

// Result returns what was found. It may be called once, after the last Read.
func (v *Verifier) Result() Verification {
	v.settleEnd()
	if !v.began {
		v.fault("there is no line of this chain")
	}
	var newest uint64
	for _, h := range v.heads {
		newest = max(newest, h.Seq)
	}
	if newest > v.result.Last {
		v.fault("the end was cut off: line %d was published, and the last line is %d", newest, v.result.Last)
	}
	return v.result
}
