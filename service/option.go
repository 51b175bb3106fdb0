package service

import (
	"flag"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// An Option is an option of [Run] and [RunFunc].
type Option interface{ apply(*options) }

type optionFunc func(*options)

func (f optionFunc) apply(o *options) { f(o) }

// options has the values of all options.
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
	checkOnly bool // --check-config
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

// WithArgs sets the arguments with the flags. The default is os.Args[1:].
func WithArgs(args []string) Option { return optionFunc(func(o *options) { o.args = args }) }

// WithCommand sets the name of the program in its help text, with the subcommand if there is one.
// The default is the name of the executable.
func WithCommand(command string) Option { return optionFunc(func(o *options) { o.command = command }) }

// WithConfig sets the configuration. Flags and environment are not read then.
func WithConfig(c Config) Option { return optionFunc(func(o *options) { o.config = &c }) }

// WithFlags defines flags of the program. They appear in --help and have environment variables like
// all others: VITRINE_ROOT for --root. Their values are set before the function of [RunFunc] and
// the server's start hooks are called. Run panics if a name is used already, as package flag does.
func WithFlags(define func(*flag.FlagSet)) Option {
	return optionFunc(func(o *options) { o.flags = append(o.flags, define) })
}

// WithEnvPrefix sets the prefix of the environment variables. With WEATHER the variable of --addr is
// WEATHER_ADDR. The default is VITRINE. A prefix has capital letters, digits and underscores;
// for any other, and for OTEL, Run returns an error.
func WithEnvPrefix(prefix string) Option {
	return optionFunc(func(o *options) { o.env = envPrefix(strings.TrimSuffix(prefix, "_")) })
}

// WithGetenv replaces os.Getenv. An empty variable counts as not set.
func WithGetenv(getenv func(string) string) Option {
	return optionFunc(func(o *options) { o.getenv = getenv })
}

// WithStdout replaces os.Stdout for --help, --version and --healthcheck. Nothing else is written to
// it.
func WithStdout(w io.Writer) Option { return optionFunc(func(o *options) { o.stdout = w }) }

// WithStderr replaces os.Stderr for the banner and the log. The writer must be safe for concurrent
// use.
func WithStderr(w io.Writer) Option { return optionFunc(func(o *options) { o.stderr = w }) }

// WithHTTPMiddleware wraps the MCP endpoint and no other handler, for example to authenticate, to
// give requests an id, or to log accesses. The first one is the outermost. It sees a request
// before the checks of Host and Origin, and a batch as one request. It is not used in stdio mode.
//
// A middleware that wraps the http.ResponseWriter must implement Unwrap for
// [http.ResponseController]. Otherwise answers have no deadlines and events are not flushed. A
// middleware that authenticates must pass on every request with the method OPTIONS; see
// [server.Server.Handler]. Middlewares that buffer answers, such as http.TimeoutHandler, do not
// work.
func WithHTTPMiddleware(wraps ...func(http.Handler) http.Handler) Option {
	return optionFunc(func(o *options) { o.wraps = append(o.wraps, wraps...) })
}

// WithHTTPHandler serves a path of the program on the MCP listener, such as
// "GET /.well-known/oauth-protected-resource". The pattern is one of [http.ServeMux] without a
// host. Run returns an error if it conflicts with the endpoint or another pattern.
//
// The middleware of [WithHTTPMiddleware] does not wrap it, because clients must be able to fetch
// this path without a token to learn how to get one. Host and Origin are not checked; a handler
// whose answers are not public must check them. A body must arrive within body_timeout and have
// at most max_frame_bytes, and the client must read each 64 KiB of an answer within
// write_timeout. A handler may set other deadlines by [http.ResponseController]. It is not used
// in stdio mode.
func WithHTTPHandler(pattern string, h http.Handler) Option {
	return optionFunc(func(o *options) { o.routes = append(o.routes, route{pattern, h}) })
}

// WithAdminHandler serves a path of the program on the admin listener, such as "GET /flags". The
// pattern is one of [http.ServeMux] without a host. Run returns an error if it conflicts with a
// page of the service or another pattern. The index lists it. The console links to it if the
// pattern has no wildcards and allows GET.
//
// It has the protection of that listener: names in the Host header must be listed, pages of other
// sites are refused, max_admin_requests bounds the requests in flight, and the client must read
// an answer within write_timeout, unless the handler sets deadlines by
// [http.ResponseController]. A body must arrive within body_timeout and have at most
// max_frame_bytes. There is no password.
func WithAdminHandler(pattern string, h http.Handler) Option {
	return optionFunc(func(o *options) { o.pages = append(o.pages, route{pattern, h}) })
}

// WithListening calls f once when clients can connect.
func WithListening(f func(Endpoints)) Option { return optionFunc(func(o *options) { o.listening = f }) }

// Endpoints has the addresses of a running process, with the actual ports.
type Endpoints struct {
	MCP   string // URL of the MCP endpoint; "" in stdio mode
	Admin string // URL of the admin listener without a path; "" if it is off
}
