// Command vitrine is the demonstration service of Vitrine: an MCP server that
// searches the text files below a folder.
//
//	vitrine serve            serve MCP at http://127.0.0.1:8080/mcp
//	vitrine serve --help     list all settings
//	vitrine policy check     find mistakes in a policy file
//	vitrine audit verify     find out whether the records of an audit were changed
//
// A first argument that is a flag means serve, as in a program that is nothing but
// service.Run: what starts such a program starts this one.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/vitrine-mcp/vitrine/service"
)

const usage = `Vitrine is an MCP server that searches the text files below a folder.

Usage:
  vitrine serve [flags]   serve MCP over HTTP, or over standard input and output with --stdio;
                          "serve" may be left out if there are flags
  vitrine audit verify --key-file KEY FILE
                          find out whether the records of an audit were changed or cut off
  vitrine policy check FILE
                          find mistakes in a policy file
  vitrine policy explain [flags] FILE
                          say what the rules of a policy file decide about one operation
  vitrine version         print what this program was built from
  vitrine help            print this text

"vitrine serve --help" lists the flags and environment variables.
`

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "vitrine:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	command := "help"
	if len(args) > 0 {
		command = args[0]
	}
	switch command {
	case "serve":
		return serve(context.Background(), args[1:])
	case "audit":
		return auditCommand(os.Stdout, args[1:])
	case "policy":
		return policyCommand(os.Stdout, args[1:])
	case "version", "--version":
		fmt.Println("vitrine", service.ReadBuild())
		return nil
	case "help", "--help", "-h":
		fmt.Print(usage)
		return nil
	}
	if strings.HasPrefix(command, "-") {
		return serve(context.Background(), args)
	}
	return fmt.Errorf("unknown command %q\n\n%s", command, usage)
}
