package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

// run runs the command.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("gen", flag.ContinueOnError)
	flags.SetOutput(stderr)
	file := flags.String("config", "", "file with the objectives, in YAML; without it all tools have the default ones")
	out := flags.String("out", "", "folder to write rules.yml and the dashboards to")
	url := flags.String("tools", "", "MCP endpoint of a server: without -out print a configuration with its tools, "+
		"with -out make sure that it has those of the configuration")
	var header headers
	flags.Var(&header, "header", "HTTP header to send to that server, such as \"Authorization: Bearer …\"; may be repeated")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 || *out == "" && *url == "" {
		return fmt.Errorf("give -out, or -tools; -help tells more")
	}
	text := []byte{}
	if *file != "" {
		var err error
		if text, err = os.ReadFile(*file); err != nil {
			return err
		}
	}
	c, err := readConfig(text)
	if err != nil {
		return err
	}
	if *url != "" {
		names, err := listTools(ctx, *url, header)
		if err != nil {
			return err
		}
		if err := c.compare(names); err != nil {
			return err
		}
		if *out == "" {
			return printConfig(stdout, &c, names)
		}
	}
	return write(*out, &c)
}

// compare returns an error if the server does not have the tools of the configuration.
func (c *config) compare(names []string) error {
	var missing []string
	for tool := range c.Tools {
		if !slices.Contains(names, tool) {
			missing = append(missing, tool)
		}
	}
	slices.Sort(missing)
	if len(missing) > 0 {
		return fmt.Errorf("the server has no %s", strings.Join(missing, ", no "))
	}
	return nil
}

// printConfig writes a configuration with all tools.
func printConfig(out io.Writer, c *config, names []string) error {
	all := map[string]objective{}
	for _, name := range names {
		all[name] = c.Tools[name]
	}
	full := *c
	full.Tools = all
	text, err := yaml.Marshal(full)
	if err == nil {
		_, err = fmt.Fprintf(out, "# What is promised of the tools, for dashboards/gen -config.\n"+
			"# A tool may have its own availability, latency and fast; a latency of -1s promises none.\n%s", text)
	}
	return err
}

// write writes all files of a configuration.
func write(folder string, c *config) error {
	all, err := files(c)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for name, text := range all {
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// files returns the generated files by name.
func files(c *config) (map[string][]byte, error) {
	text, err := rules(c).encode()
	if err != nil {
		return nil, err
	}
	all := map[string][]byte{"rules.yml": text}
	for _, s := range sheets(c) {
		if all[s.key+".json"], err = s.dashboard(c).encode(); err != nil {
			return nil, err
		}
	}
	return all, nil
}
