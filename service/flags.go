package service

import (
	"cmp"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// load returns the configuration. serve is false if it printed information instead, such as the
// help text.
func (o *options) load(info mcp.Implementation) (cfg Config, serve bool, err error) {
	if o.config != nil {
		o.flagSet(&cfg) // the program's own flags have their defaults
		return *o.config, true, o.config.check()
	}
	cfg = DefaultConfig()
	fs, extra := o.flagSet(&cfg)
	version := fs.Bool(flagVersion, false, "print what this program was built from")
	var health string
	fs.Var(textValue(&health, oneOf(healthPages...)), flagHealth,
		"ask `page` livez or readyz of the process that runs with the same settings, and end: with an error if the answer is no")
	fs.BoolVar(&o.checkOnly, flagCheck, false, "check the settings, the files that they name, and what the issuers of tokens say of themselves, and end: with an error that says what is wrong")
	faults := o.environment(fs)
	if name := o.env.name(stateKeys); o.getenv(name) != "" {
		if cfg.StateKeys, err = parseKeys(o.getenv(name)); err != nil {
			faults = append(faults, fmt.Errorf("invalid value for %s: %w", name, err))
		}
	}
	flagFaults, help := parseFlags(fs, o.args)
	if faults = append(faults, flagFaults...); len(faults) == 0 && health == "" { // a health check may see the environment only
		faults = cfg.checkDependencies()
	}
	switch {
	case help:
		o.printHelp(fs, extra, cmp.Or(info.Description, info.Title))
		return cfg, false, nil
	case *version:
		fmt.Fprintf(o.stdout, "%s %s\nbuild %s\n", info.Name, info.Version, ReadBuild())
		return cfg, false, nil
	case len(faults) > 0:
		return cfg, false, fmt.Errorf("%w\n(%s --help lists the settings)", joinFaults(faults), o.command)
	case health != "":
		return cfg, false, o.checkHealth(&cfg, health)
	}
	explicit := false
	fs.Visit(func(f *flag.Flag) { explicit = explicit || f.Name == flagAdminAddr })
	if cfg.Stdio && !explicit {
		cfg.AdminAddr = off // a client may start several copies
	}
	return cfg, true, nil
}

// flagSet defines the flags of the table and those of the program. extra has the names of the
// latter.
func (o *options) flagSet(cfg *Config) (fs *flag.FlagSet, extra map[string]bool) {
	fs = flag.NewFlagSet(o.command, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	for _, s := range settings(o.env) {
		fs.Var(s.value(cfg), s.name, s.usage)
	}
	own := map[string]bool{}
	fs.VisitAll(func(f *flag.Flag) { own[f.Name] = true })
	extra = map[string]bool{}
	for _, define := range o.flags {
		define(fs)
	}
	fs.VisitAll(func(f *flag.Flag) { extra[f.Name] = !own[f.Name] })
	return fs, extra
}

// environment sets flags from their variables. Empty variables are ignored.
func (o *options) environment(fs *flag.FlagSet) (faults []error) {
	fs.VisitAll(func(f *flag.Flag) {
		if f.Name == flagVersion || f.Name == flagHealth || f.Name == flagCheck {
			return
		}
		name := o.env.name(f.Name)
		text := o.getenv(name)
		if text == "" {
			return
		}
		if err := fs.Set(f.Name, text); err != nil {
			faults = append(faults, fmt.Errorf("invalid value %q for %s: %w", text, name, err))
		}
	})
	return faults
}

// parseFlags parses all arguments and collects the errors.
func parseFlags(fs *flag.FlagSet, args []string) (faults []error, help bool) {
	for {
		err := fs.Parse(args)
		switch {
		case errors.Is(err, flag.ErrHelp):
			return nil, true
		case err == nil && fs.NArg() > 0:
			return append(faults, fmt.Errorf("unexpected argument %q", fs.Arg(0))), false
		case err == nil:
			return faults, false
		}
		faults = append(faults, err)
		if !strings.HasPrefix(err.Error(), "invalid ") {
			return faults, false // after an unknown flag, values and flags cannot be told apart
		}
		args = fs.Args()
	}
}

const (
	helpIndent = 32 // columns before a description
	helpWidth  = 96
)

// printHelp prints all flags of fs in their groups, those of the program first. about describes the
// server in one sentence, or is "".
func (o *options) printHelp(fs *flag.FlagSet, extra map[string]bool, about string) {
	var b strings.Builder
	fmt.Fprintf(&b, "Usage: %s [flags]\n", o.command)
	if about != "" {
		fmt.Fprintf(&b, "\n%s\n", about)
	}
	b.WriteString("\nEvery flag can also be given as the environment variable beside it; flags win.\n")
	members := map[string][]*flag.Flag{}
	fs.VisitAll(func(f *flag.Flag) {
		if extra[f.Name] {
			members[o.program()] = append(members[o.program()], f)
		}
	})
	for _, s := range settings(o.env) {
		members[s.group] = append(members[s.group], fs.Lookup(s.name))
	}
	for _, group := range append([]string{o.program()}, groups()...) {
		if len(members[group]) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n%s\n", group)
		for _, f := range members[group] {
			writeFlag(&b, f, o.env.name(f.Name))
		}
	}
	b.WriteString("\nInformation\n")
	writeFlag(&b, &flag.Flag{Name: "help", Usage: "print this text", Value: boolValue(new(bool))}, "")
	writeFlag(&b, fs.Lookup(flagVersion), "")
	writeFlag(&b, fs.Lookup(flagHealth), "")
	writeFlag(&b, fs.Lookup(flagCheck), "")
	b.WriteString("\nTraces, metrics and logs are exported as the standard OTEL_* variables say; with none set,\n" +
		"nothing is exported and /metrics on the admin listener still has the metrics.\n")
	fmt.Fprint(o.stdout, b.String())
}

// program returns the first word of the command.
func (o *options) program() string { return strings.Fields(cmp.Or(o.command, "program"))[0] }

// writeFlag writes one flag: what it does, its default and its variable.
func writeFlag(b *strings.Builder, f *flag.Flag, env string) {
	placeholder, usage := flag.UnquoteUsage(f) // "" for a bool
	indent := strings.Repeat(" ", helpIndent)
	name := "  --" + f.Name
	if placeholder != "" {
		name += " <" + placeholder + ">"
	}
	if len(name) >= helpIndent {
		name += "\n" + indent
	}
	fmt.Fprintf(b, "%-*s", helpIndent, name)
	lines := wrap(usage, helpWidth-helpIndent)
	switch {
	case env != "" && f.DefValue != "" && f.DefValue != "false":
		lines = append(lines, "[default "+f.DefValue+", "+env+"]")
	case env != "":
		lines = append(lines, "["+env+"]")
	}
	b.WriteString(strings.Join(lines, "\n"+indent) + "\n")
}

// wrap breaks a text between words.
func wrap(text string, width int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

// healthPages are the pages for health checks: whether the process lives, and whether it is ready
// for requests.
var healthPages = []string{"livez", "readyz"}

// healthPatience is how long an answer may take. It should be shorter than the timeout of the
// prober, whose error says less.
const healthPatience = 5 * time.Second

// checkHealth asks the admin listener of another process and prints its answer. It is for
// containers without other programs.
func (o *options) checkHealth(cfg *Config, page string) error {
	host, port, err := net.SplitHostPort(cfg.AdminAddr)
	if err != nil || port == "0" {
		return fmt.Errorf("service: health check: nobody can be asked at %q (--%s or %s says where the process has its admin listener)",
			cfg.AdminAddr, flagAdminAddr, o.env.name(flagAdminAddr))
	}
	ip, scheme := net.ParseIP(host), "http://"
	if cfg.TLS.Cert != "" && host != "localhost" && !ip.IsLoopback() {
		scheme = "https://"
	}
	if host == "" || ip.IsUnspecified() {
		host = "127.0.0.1" // not localhost: a container may not resolve names
	}
	client := &http.Client{Timeout: healthPatience, Transport: &http.Transport{ // without a proxy
		DisableKeepAlives: true,
		// The certificate is for the names of clients. Who answers here is on this machine.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}}
	resp, err := client.Get(scheme + net.JoinHostPort(host, port) + "/" + page)
	if err != nil {
		return fmt.Errorf("service: health check: %w", err)
	}
	defer resp.Body.Close()
	const most = 64 << 10
	text, err := io.ReadAll(io.LimitReader(resp.Body, most))
	switch {
	case err != nil:
		return fmt.Errorf("service: health check: %w", err)
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("service: health check: %s: %s", resp.Status, strings.TrimSpace(string(text)))
	}
	_, err = o.stdout.Write(text)
	return err
}
