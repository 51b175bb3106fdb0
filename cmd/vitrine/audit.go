package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/vitrine-mcp/vitrine/audit"
	"github.com/vitrine-mcp/vitrine/audit/auditfile"
)

const auditUsage = `usage: vitrine audit verify --key-file KEY [flags] FILE

Checks the chain of the records in FILE and in the older files beside it. It fails if a line was
changed, inserted, moved or removed, and, with --head or --heads, if lines were cut off at the end`

// auditCommand is "vitrine audit".
func auditCommand(out io.Writer, args []string) error {
	if len(args) == 0 || args[0] != "verify" {
		return errors.New(auditUsage)
	}
	v := verification{out: out}
	fs := flag.NewFlagSet("vitrine audit verify", flag.ContinueOnError)
	fs.SetOutput(out)
	fs.Usage = func() {
		fmt.Fprint(out, auditUsage+"\n\n")
		fs.PrintDefaults()
	}
	fs.StringVar(&v.keyFile, "key-file", "", "`file` with the key of the audit")
	fs.Uint64Var(&v.from, "from", 1, "`number` of the first line that must be there, if older files were deleted because of their age")
	fs.Func("head", "`head` of the chain that was published, number:code, as in the log record audit.head; may be repeated", v.addHead)
	fs.StringVar(&v.headsFile, "heads", "", "`file` with a log of the server, of which the records audit.head are read")
	fs.StringVar(&v.sink, "sink", "file", "`name` of the sink that has written FILE, for --heads")
	switch err := fs.Parse(args[1:]); {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil:
		return err
	case fs.NArg() != 1 || v.keyFile == "":
		return errors.New(auditUsage)
	}
	return v.run(fs.Arg(0))
}

// A verification is what "vitrine audit verify" is asked for.
type verification struct {
	out                      io.Writer
	keyFile, headsFile, sink string
	from                     uint64
	heads                    []audit.Head
}

func (v *verification) addHead(text string) error {
	h, err := audit.ParseHead(text)
	v.heads = append(v.heads, h)
	return err
}

// run verifies a file and says what was found. The error says that something is wrong.
func (v *verification) run(path string) error {
	key, err := audit.ReadKey(v.keyFile)
	if err != nil {
		return err
	}
	verifier, err := audit.NewVerifier(key, v.from)
	if err != nil {
		return err
	}
	if err := v.readHeads(); err != nil {
		return err
	}
	verifier.Expect(v.heads...)
	names, err := auditfile.Files(path)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := readFile(verifier, name); err != nil {
			return err
		}
	}
	return v.report(verifier.Result(), len(names))
}

func readFile(v *audit.Verifier, name string) error {
	r, err := auditfile.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(v.Read(name, r), r.Close())
}

// readHeads adds the heads of a log, in which each is in a line of text or of JSON.
func (v *verification) readHeads() error {
	if v.headsFile == "" {
		return nil
	}
	f, err := os.Open(v.headsFile)
	if err != nil {
		return err
	}
	defer f.Close()
	found := len(v.heads)
	for lines := bufio.NewReader(f); ; {
		text, err := lines.ReadString('\n')
		if head, ok := headIn(text, v.sink); ok {
			v.heads = append(v.heads, head)
		}
		switch {
		case errors.Is(err, io.EOF) && len(v.heads) == found:
			return fmt.Errorf("%s has no record audit.head of the sink %q", v.headsFile, v.sink)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// headIn returns the head in a line of a log.
func headIn(text, sink string) (audit.Head, bool) {
	if !strings.Contains(text, "audit.head") || !strings.Contains(text, `"sink":"`+sink+`"`) && !strings.Contains(text, "sink="+sink+" ") {
		return audit.Head{}, false
	}
	for _, before := range []string{`"head":"`, "head="} {
		if _, rest, found := strings.Cut(text, before); found {
			end := strings.IndexAny(rest+"\n", "\" \r\n")
			if h, err := audit.ParseHead(rest[:end]); err == nil {
				return h, true
			}
		}
	}
	return audit.Head{}, false
}

// report says what was found.
func (v *verification) report(r audit.Verification, files int) error {
	fmt.Fprintf(v.out, "%d lines in %d files, numbers %d to %d, head %s\n", r.Lines, files, r.First, r.Last, r.Head)
	if r.Lost > 0 {
		fmt.Fprintf(v.out, "the server says that it has lost %d records\n", r.Lost)
	}
	switch {
	case r.Torn:
		fmt.Fprintln(v.out, "the last line is not complete: the server writes just now, has died, or the end was cut off")
	case !r.Closed:
		fmt.Fprintln(v.out, "the records have no end: the server runs, has died, or the end was cut off")
	}
	if len(v.heads) == 0 {
		fmt.Fprintln(v.out, "without --head or --heads, lines that were cut off at the end are not noticed")
	}
	for _, fault := range r.Faults {
		fmt.Fprintln(v.out, fault)
	}
	if n := len(r.Faults) + r.More; n > 0 {
		return fmt.Errorf("%d faults: the records are not those that were written", n)
	}
	fmt.Fprintln(v.out, "no fault")
	return nil
}
