package service

import (
	"cmp"
	"errors"
	"flag"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vitrine-mcp/vitrine/auth/local"
	"github.com/vitrine-mcp/vitrine/internal/streamable"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A value is a flag.Value for a field of a Config.
type value[T any] struct {
	field  *T
	parse  func(string) (T, error)
	format func(T) string
	isBool bool
}

func (v *value[T]) Set(text string) error {
	parsed, err := v.parse(text)
	if err == nil {
		*v.field = parsed
	}
	return err
}

// String implements flag.Value. Package flag also calls it on a zero value.
func (v *value[T]) String() string {
	if v == nil || v.field == nil {
		return ""
	}
	return v.format(*v.field)
}

// IsBoolFlag makes --flag mean --flag=true.
func (v *value[T]) IsBoolFlag() bool { return v.isBool }

func textValue(field *string, check func(string) error) flag.Value {
	return &value[string]{
		field:  field,
		parse:  func(text string) (string, error) { return text, check(text) },
		format: func(text string) string { return text },
	}
}

// parsed returns a value with its parser. Errors say that want is expected. ok reports whether a
// value is valid; it may be nil.
func parsed[T any](field *T, want string, parse func(string) (T, error), ok func(T) bool, format func(T) string) *value[T] {
	return &value[T]{field: field, format: format, parse: func(text string) (T, error) {
		v, err := parse(text)
		if err != nil || ok != nil && !ok(v) {
			return v, errors.New("want " + want)
		}
		return v, nil
	}}
}

// limitValue returns a value whose zero stands for a default. The server checks its range.
func limitValue[T comparable](field *T, byDefault T, parse func(string) (T, error), format func(T) string) flag.Value {
	return parsed(field, "a value like "+format(byDefault), parse, nil, func(v T) string {
		return format(cmp.Or(v, byDefault))
	})
}

func boolValue(field *bool) flag.Value {
	v := parsed(field, "true or false", strconv.ParseBool, nil, strconv.FormatBool)
	v.isBool = true
	return v
}

func intValue(field *int) flag.Value {
	return parsed(field, "a positive whole number", strconv.Atoi, func(n int) bool { return n > 0 }, strconv.Itoa)
}

// countValue is [intValue] for a number that can be 0.
func countValue(field *int) flag.Value {
	return parsed(field, "a whole number that is not negative", strconv.Atoi, func(n int) bool { return n >= 0 }, strconv.Itoa)
}

func durationValue(field *time.Duration) flag.Value {
	return parsed(field, "a time such as 500ms, 20s or 1m30s", time.ParseDuration, func(d time.Duration) bool { return d >= 0 }, formatDuration)
}

func levelValue(field *slog.Level) flag.Value {
	parse := func(text string) (level slog.Level, err error) {
		err = level.UnmarshalText([]byte(text))
		return level, err
	}
	return parsed(field, "debug, info, warn or error", parse, nil, func(l slog.Level) string { return strings.ToLower(l.String()) })
}

func listValue(field *[]string, check func(entry string) error) flag.Value {
	format := func(list []string) string { return strings.Join(list, ",") }
	return &value[[]string]{field: field, format: format, parse: func(text string) (list []string, err error) {
		for entry := range strings.SplitSeq(text, ",") {
			if entry = strings.TrimSpace(entry); entry == "" {
				continue
			}
			if err := check(entry); err != nil {
				return nil, err
			}
			list = append(list, entry)
		}
		return list, nil
	}}
}

// erasValue returns a value for a list of eras.
func erasValue(field *[]mcp.Era) flag.Value {
	names := map[string]mcp.Era{mcp.Modern.String(): mcp.Modern, mcp.Legacy.String(): mcp.Legacy}
	var texts []string
	list := listValue(&texts, oneOf(mcp.Modern.String(), mcp.Legacy.String()))
	return &value[[]mcp.Era]{
		field: field,
		parse: func(text string) (eras []mcp.Era, err error) {
			texts = nil
			err = list.Set(text)
			for _, name := range texts {
				eras = append(eras, names[name])
			}
			return eras, err
		},
		format: func(eras []mcp.Era) string {
			var texts []string
			for _, e := range eras {
				texts = append(texts, e.String())
			}
			return strings.Join(texts, ",")
		},
	}
}

// formatDuration writes 2m instead of 2m0s.
func formatDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

func anything(string) error { return nil }

// wants returns a check of a text. Its error says what is expected.
func wants(what string, ok func(text string) bool) func(text string) error {
	return func(text string) error {
		if !ok(text) {
			return errors.New("want " + what)
		}
		return nil
	}
}

var (
	hostPort      = wants("host:port, such as 127.0.0.1:8080 or :8080", isHostPort)
	hostPortOrOff = wants("host:port, such as 127.0.0.1:9464, or off", func(text string) bool {
		return text == "" || text == off || isHostPort(text)
	})
	urlPath = wants("a path that begins with /, such as /mcp", func(text string) bool {
		return strings.HasPrefix(text, "/") && !strings.Contains(text, "//") && !strings.ContainsAny(text, " {}?#%")
	})
	headerName = wants("names of headers, such as X-Tenant, X-Region", func(text string) bool {
		return (streamable.Config{AllowedHeaders: []string{text}}).Check() == nil
	})
	headerNameOrNone = wants("the name of a header, such as X-Forwarded-User", func(text string) bool { return text == "" || headerName(text) == nil })
	certificateName  = wants("uri, dns, email or cn", func(text string) bool { return (&local.Certificates{Subject: text}).Check() == nil })
	proxyNetwork     = wants("networks or addresses of proxies, such as 10.0.0.0/8,2001:db8::1, and none of all addresses", func(text string) bool {
		return (streamable.Config{TrustedProxies: []string{text}}).Check() == nil
	})
	webAddressOrNone = wants("an address such as http://localhost:16686", isWebAddressOrNone)
)

func isHostPort(text string) bool {
	_, port, err := net.SplitHostPort(text)
	return err == nil && port != ""
}

// isWebAddressOrNone allows only HTTP, because the address becomes a link.
func isWebAddressOrNone(text string) bool {
	u, err := url.Parse(text)
	return text == "" || err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.RawQuery == "" && u.Fragment == ""
}

func oneOf(words ...string) func(string) error {
	return wants(strings.Join(words, " or "), func(text string) bool { return slices.Contains(words, text) })
}
