package service

import (
	"flag"
	"io"
	"net/http"
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
	wraps     []func(http.Handler) http.Handler
	routes    []route // beside the MCP endpoint
	pages     []route // on the admin listener
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

// WithHTTPMiddleware wraps the MCP endpoint, and nothing else that the process serves:
// to authenticate, to give requests an id, to log accesses. The first one is the
// outermost. It sees each request before the checks of Host and Origin, and those of a
// batch as one. It is not used in stdio mode.
//
// A middleware that wraps the http.ResponseWriter implements Unwrap, as
// [http.ResponseController] wants it: without that, answers have no deadlines and events
// are not flushed. One that authenticates passes on every request with the method OPTIONS;
// see [server.Server.Handler]. http.TimeoutHandler and anything else that buffers answers
// cannot be used.
func WithHTTPMiddleware(wraps ...func(http.Handler) http.Handler) Option {
	return optionFunc(func(o *options) { o.wraps = append(o.wraps, wraps...) })
}

// WithHTTPHandler serves a path of the program's own beside the MCP endpoint, such as
// "GET /.well-known/oauth-protected-resource". The pattern is one of [http.ServeMux] without
// a host. What collides with the endpoint, or with another pattern, makes Run return an error.
//
// The middleware of [WithHTTPMiddleware] is not around it: clients must be able to fetch
// without a token what tells them how to get one. Host and Origin are not checked either: a
// handler whose answers are not public checks them itself. A body has body_timeout to arrive and at
// most max_frame_bytes, and each 64 KiB of an answer write_timeout to be read; a handler may
// set other deadlines by [http.ResponseController]. It is not used in stdio mode.
func WithHTTPHandler(pattern string, h http.Handler) Option {
	return optionFunc(func(o *options) { o.routes = append(o.routes, route{pattern, h}) })
}

// WithAdminHandler serves a path of the program's own on the admin listener, such as
// "GET /flags". The pattern is one of [http.ServeMux] without a host. What collides with a page
// of the service, or with another pattern, makes Run return an error. The index lists it, and
// the console has a link if it can be fetched by its path alone.
//
// It has the protection of that listener: names in the Host header must be listed, pages of
// other sites are refused, max_admin_requests bounds how many requests are worked on,
// write_timeout how long an answer may take to be read, unless the handler sets deadlines
// by [http.ResponseController]. A body has body_timeout to arrive and at most
// max_frame_bytes. It asks for no password.
func WithAdminHandler(pattern string, h http.Handler) Option {
	return optionFunc(func(o *options) { o.pages = append(o.pages, route{pattern, h}) })
}

// WithListening calls f once, when clients can connect.
func WithListening(f func(Endpoints)) Option { return optionFunc(func(o *options) { o.listening = f }) }

// Endpoints are the addresses at which a running process is reached, with the
// ports that were really taken.
type Endpoints struct {
	MCP   string // URL of the MCP endpoint; "" in stdio mode
	Admin string // URL of the admin listener without a path; "" if it is off
}
