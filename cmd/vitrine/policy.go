package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/auth/policy"
	"github.com/vitrine-mcp/vitrine/mcp"
)

const policyUsage = `usage: vitrine policy check FILE
       vitrine policy explain [flags] FILE

check reads a policy file, compiles its expressions, and fails with the line of the first mistake.
explain says what the rules of the file decide about one operation, and which rules were asked`

// policyCommand is "vitrine policy".
func policyCommand(out io.Writer, args []string) error {
	switch {
	case len(args) == 2 && args[0] == "check" && !strings.HasPrefix(args[1], "-"):
		return checkPolicy(out, args[1])
	case len(args) > 0 && args[0] == "explain":
		return explainPolicy(out, args[1:])
	}
	return errors.New(policyUsage)
}

// checkPolicy is "vitrine policy check".
func checkPolicy(out io.Writer, path string) error {
	p, err := policy.Open(path, policy.Config{})
	if err != nil {
		return err
	}
	stats := p.Stats()
	byDefault := stats.Rules[len(stats.Rules)-1]
	fmt.Fprintf(out, "%s: %d rules, and the default is %s\n", path, len(stats.Rules)-1, byDefault.Effect)
	return nil
}

// explainPolicy is "vitrine policy explain".
func explainPolicy(out io.Writer, args []string) error {
	var q policyQuestion
	fs := flag.NewFlagSet("vitrine policy explain", flag.ContinueOnError)
	fs.SetOutput(out)
	fs.Usage = func() {
		fmt.Fprint(out, policyUsage+"\n\n")
		fs.PrintDefaults()
	}
	q.define(fs)
	switch err := fs.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil:
		return err
	case fs.NArg() != 1:
		return errors.New(policyUsage)
	}
	if err := q.complete(); err != nil {
		return err
	}
	p, err := policy.Open(fs.Arg(0), policy.Config{})
	if err != nil {
		return err
	}
	return q.print(out, p.Explain(q.caller(), &q.op))
}

// A policyQuestion is what "vitrine policy explain" is asked.
type policyQuestion struct {
	principal                 auth.Principal
	op                        auth.Operation
	scopes, claims, arguments string
}

func (q *policyQuestion) define(fs *flag.FlagSet) {
	fs.StringVar(&q.principal.Subject, "subject", "", "`subject` of the principal; without one the caller has no principal")
	fs.StringVar(&q.principal.Issuer, "issuer", "", "`issuer` of the principal")
	fs.StringVar(&q.principal.Tenant, "tenant", "", "`tenant` of the principal")
	fs.StringVar(&q.principal.Client, "client", "", "client `id` of the principal")
	fs.StringVar(&q.scopes, "scopes", "", "`scopes` of the principal, separated by spaces or commas")
	fs.StringVar(&q.claims, "claims", "", "further claims of the principal, as a `JSON` object")
	fs.StringVar(&q.op.Method, "method", "", "`method` of the request; follows from the kind if it is not given")
	fs.StringVar(&q.op.Kind, "kind", auth.KindTool, "`kind` of the item: tool, prompt, resource or resource template")
	fs.StringVar(&q.op.Name, "name", "", "registered `name` of the item")
	fs.StringVar(&q.op.URI, "uri", "", "`URI` of a resource, or that a template is used for")
	fs.StringVar(&q.op.Template, "template", "", "URI `template`")
	fs.StringVar(&q.arguments, "arguments", "", "arguments, as a `JSON` object")
	fs.BoolVar(&q.op.Listed, "listed", false, "the item is listed: arguments, and the URI of a template, are unknown")
	fs.StringVar(&q.op.Transport, "transport", "http", "`transport` of the caller")
	fs.StringVar(&q.op.Address, "address", "", "`address` of the caller")
	fs.StringVar(&q.op.ClientName, "client-name", "", "`name` that the client says")
	fs.StringVar(&q.op.ClientVersion, "client-version", "", "`version` that the client says")
}

// complete reads what was given as text.
func (q *policyQuestion) complete() error {
	q.principal.Scopes = strings.FieldsFunc(q.scopes, func(r rune) bool { return r == ' ' || r == ',' })
	if q.claims != "" {
		dec := json.NewDecoder(strings.NewReader(q.claims))
		dec.UseNumber()
		if err := dec.Decode(&q.principal.Claims); err != nil {
			return fmt.Errorf("--claims is no JSON object: %w", err)
		}
	}
	if q.arguments != "" {
		q.op.Arguments = []byte(q.arguments)
	}
	if q.op.Method == "" {
		method, ok := map[string]string{
			auth.KindTool: mcp.MethodToolsCall, auth.KindPrompt: mcp.MethodPromptsGet,
			auth.KindResource: mcp.MethodResourcesRead, auth.KindTemplate: mcp.MethodResourcesRead,
		}[q.op.Kind]
		if !ok {
			return fmt.Errorf("there is no kind %q: kinds are tool, prompt, resource and resource template", q.op.Kind)
		}
		q.op.Method = method
	}
	return nil
}

// caller returns the principal, or nil.
func (q *policyQuestion) caller() *auth.Principal {
	if q.principal.Subject == "" {
		return nil
	}
	return &q.principal
}

func (q *policyQuestion) print(out io.Writer, e policy.Explanation) error {
	d := e.Decision
	by := "because it is a method of the protocol"
	if d.Rule != "" {
		by = "by rule " + d.Rule
	}
	fmt.Fprintf(out, "%s, %s", d.Effect, by)
	if d.Reason != "" {
		fmt.Fprintf(out, ": %s", d.Reason)
	}
	if d.DryRun {
		fmt.Fprint(out, " (a dry run: the operation passes)")
	}
	fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, s := range e.Steps {
		note := ""
		if s.DryRun {
			note = "dry run"
		}
		if s.Err != nil {
			note = strings.TrimSpace(note + " " + s.Err.Error())
		}
		fmt.Fprintf(table, "  line %d\t%s\t%s\t%s\t%s\n", s.Line, s.Effect, s.Rule, s.Result, note)
	}
	return table.Flush()
}
