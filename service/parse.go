package service

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

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
	faults := o.environment(fs)
	if name := o.env.name(stateKeys); o.getenv(name) != "" {
		if cfg.StateKeys, err = parseKeys(o.getenv(name)); err != nil {
			faults = append(faults, fmt.Errorf("invalid value for %s: %w", name, err))
		}
	}
	flagFaults, help := parseFlags(fs, o.args)
	faults = append(faults, flagFaults...)
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
		return cfg, false, o.checkHealth(cfg.AdminAddr, health)
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
		if f.Name == flagVersion || f.Name == flagHealth {
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
