package service

import (
	"cmp"
	"flag"
	"fmt"
	"strings"
)

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
