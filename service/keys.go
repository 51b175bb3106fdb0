package service

import (
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"unicode"
)

// Keys are secrets. When they are printed or logged, only their number is shown.
type Keys [][]byte

// String implements fmt.Stringer.
func (k Keys) String() string { return fmt.Sprintf("%d keys", len(k)) }

// GoString implements fmt.GoStringer.
func (k Keys) GoString() string { return "service.Keys(" + k.String() + ")" }

// MarshalText implements encoding.TextMarshaler.
func (k Keys) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// LogValue implements slog.LogValuer.
func (k Keys) LogValue() slog.Value { return slog.StringValue(k.String()) }

// stateKeys is the name of an environment variable. It is no flag because all users of a machine
// can read the arguments of a process.
const stateKeys = "state-keys"

// parseKeys reads keys in base64, separated by commas or white space. The error shows no part of a
// key.
func parseKeys(text string) (keys Keys, err error) {
	words := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
	for i, word := range words {
		key, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(word, "="))
		if err != nil {
			return nil, fmt.Errorf("key %d is not base64", i+1)
		}
		keys = append(keys, key)
	}
	if keys == nil {
		return nil, errors.New("there is no key")
	}
	return keys, nil
}
