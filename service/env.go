package service

import (
	"fmt"
	"regexp"
	"strings"
)

// An envPrefix is the prefix of a program's environment variables.
type envPrefix string

const defaultPrefix envPrefix = "VITRINE"

// name returns the environment variable of a flag.
func (p envPrefix) name(flagName string) string {
	return string(p) + "_" + strings.ToUpper(strings.ReplaceAll(flagName, "-", "_"))
}

var prefixForm = regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`)

// check returns an error for a prefix that is not valid in a name, and for the prefix of
// OpenTelemetry, because OTEL_LOG_LEVEL has another meaning.
func (p envPrefix) check() error {
	switch {
	case !prefixForm.MatchString(string(p)):
		return fmt.Errorf("service: environment prefix %q: want capital letters, digits and _, such as WEATHER", string(p))
	case p == "OTEL":
		return fmt.Errorf("service: environment prefix %q: the variables of that name belong to OpenTelemetry", string(p))
	}
	return nil
}
