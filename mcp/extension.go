package mcp

import (
	"fmt"
	"slices"
	"strings"
)

// CheckExtensionID returns what is wrong with the id of an extension: a prefix of
// labels with dots between them, a slash and a name, as in "com.example/thing"
// (specification: "Extensions"; the grammar is that of the keys of _meta). The
// prefix is mandatory. Labels begin with a letter and end with a letter or a digit.
func CheckExtensionID(id string) error {
	prefix, name, slash := strings.Cut(id, "/")
	if !slash || len(id) > 256 {
		return fmt.Errorf("mcp: extension id %.300q must be a prefix, a slash and a name, as in com.example/thing", id)
	}
	for label := range strings.SplitSeq(prefix, ".") {
		if !wordOf(label, "-") || digit(label[0]) {
			return fmt.Errorf("mcp: extension id %q: %q is no label of a prefix", id, label)
		}
	}
	if !wordOf(name, "-_.") {
		return fmt.Errorf("mcp: extension id %q: %q is no name", id, name)
	}
	return nil
}

// wordOf reports whether s consists of letters, digits and the other characters, which
// must not stand at either end.
func wordOf(s, others string) bool {
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', digit(c):
		case i == 0 || i == len(s)-1 || strings.IndexByte(others, c) < 0:
			return false
		}
	}
	return s != ""
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

// OwnMethod reports whether a method or a notification belongs to the protocol, or has a
// prefix of the protocol's methods. Extensions must use other names.
func OwnMethod(name string) bool {
	if name == MethodInitialize || name == MethodPing || strings.HasPrefix(name, "rpc.") {
		return true
	}
	prefix, _, _ := strings.Cut(name, "/")
	return slices.Contains([]string{
		"server", "tools", "prompts", "resources", "completion", "subscriptions", "logging", "tasks",
		"sampling", "elicitation", "roots",
	}, prefix) || ownNotification(name)
}

// ownNotification reports whether a notification belongs to the protocol. All share the
// prefix notifications/; the word after it decides.
func ownNotification(name string) bool {
	rest, found := strings.CutPrefix(name, "notifications/")
	if !found {
		return name == "notifications"
	}
	first, _, _ := strings.Cut(rest, "/")
	return slices.Contains([]string{
		"cancelled", "initialized", "progress", "message", "tools", "prompts", "resources", "subscriptions",
		"roots", "tasks", "elicitation",
	}, first)
}
