package service

import (
	"fmt"
	"regexp"
	"strings"
)

// An envPrefix begins the names of a program's environment variables.
type envPrefix string

const defaultPrefix envPrefix = "VITRINE"

// name returns the environment variable of a flag.
func (p envPrefix) name(flagName string) string {
	return string(p) + "_" + strings.ToUpper(strings.ReplaceAll(flagName, "-", "_"))
}

var prefixForm = regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`)

// check refuses what cannot begin the name of a variable, and the prefix of OpenTelemetry,
// whose OTEL_LOG_LEVEL means something else.
func (p envPrefix) check() error {
	switch {
	case !prefixForm.MatchString(string(p)):
		return fmt.Errorf("service: environment prefix %q: want capital letters, digits and _, such as WEATHER", string(p))
	case p == "OTEL":
		return fmt.Errorf("service: environment prefix %q: the variables of that name belong to OpenTelemetry", string(p))
	}
	return nil
}
