package service

import (
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// An Option changes how [Run] does its work.
type Option interface{ apply(*options) }

type optionFunc func(*options)

func (f optionFunc) apply(o *options) { f(o) }

// options collects the options.
type options struct {
	args      []string
	command   string
	config    *Config
	flags     []func(*flag.FlagSet)
	env       envPrefix
	getenv    func(string) string
	stdout    io.Writer
	stderr    io.Writer
	listening func(Endpoints)
}

func newOptions(opts []Option) *options {
	o := &options{
		args: os.Args[1:], command: filepath.Base(os.Args[0]), getenv: os.Getenv,
		env: defaultPrefix, stdout: os.Stdout, stderr: os.Stderr, listening: func(Endpoints) {},
	}
	for _, opt := range opts {
		opt.apply(o)
	}
	return o
}

// WithArgs sets the arguments from which the flags are read. The default is
// os.Args[1:].
func WithArgs(args []string) Option { return optionFunc(func(o *options) { o.args = args }) }

// WithCommand says how the program is called, for its help text: its name, and a
// subcommand after it if there is one. The default is the name of the executable.
func WithCommand(command string) Option { return optionFunc(func(o *options) { o.command = command }) }

// WithConfig sets the configuration. Flags and environment are then not read.
func WithConfig(c Config) Option { return optionFunc(func(o *options) { o.config = &c }) }

// WithFlags lets the program define flags of its own. They appear in --help and
// can be set by environment variables as the others can: root by VITRINE_ROOT.
// Their values are known when the function given to [RunFunc] makes the server, and
// when the server's start hooks run. A name that is taken already makes Run panic, as
// package flag does.
func WithFlags(define func(*flag.FlagSet)) Option {
	return optionFunc(func(o *options) { o.flags = append(o.flags, define) })
}

// WithEnvPrefix sets how the names of the environment variables begin: with the prefix
// WEATHER the flag --addr can be given as WEATHER_ADDR, and VITRINE_ADDR means nothing.
// The default is VITRINE. A prefix that is not made of capital letters, digits and
// underscores makes Run return an error, and so does OTEL.
func WithEnvPrefix(prefix string) Option {
	return optionFunc(func(o *options) { o.env = envPrefix(strings.TrimSuffix(prefix, "_")) })
}

// WithGetenv replaces os.Getenv. An empty variable counts as not set.
func WithGetenv(getenv func(string) string) Option {
	return optionFunc(func(o *options) { o.getenv = getenv })
}

// WithStdout replaces os.Stdout for --help, --version and --healthcheck. Nothing else
// is ever written there.
func WithStdout(w io.Writer) Option { return optionFunc(func(o *options) { o.stdout = w }) }

// WithStderr replaces os.Stderr, where the banner and the log go. It must take
// writes from several goroutines.
func WithStderr(w io.Writer) Option { return optionFunc(func(o *options) { o.stderr = w }) }

// WithListening calls f once, when clients can connect.
func WithListening(f func(Endpoints)) Option { return optionFunc(func(o *options) { o.listening = f }) }

// Endpoints are the addresses at which a running process is reached, with the
// ports that were really taken.
type Endpoints struct {
	MCP   string // URL of the MCP endpoint; "" in stdio mode
	Admin string // URL of the admin listener without a path; "" if it is off
}
