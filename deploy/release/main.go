// Command release does what scripts/release.sh cannot do with go build alone.
//
//	release sbom program...            prints nothing, and writes program.cdx.json beside each program
//	release pin [-mirror host] file... pins the images that the files name
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("which command: sbom or pin?")
	}
	flags := flag.NewFlagSet("release "+args[0], flag.ContinueOnError)
	mirror := flags.String("mirror", "", "`host` of a registry that has copies of all images; it is asked instead of each image's own")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	switch args[0] {
	case "sbom":
		for _, program := range flags.Args() {
			if err := writeBOM(program); err != nil {
				return err
			}
		}
		return nil
	case "pin":
		return pinFiles(flags.Args(), resolver{mirror: *mirror}.digest)
	}
	return fmt.Errorf("no command %q, only sbom and pin", args[0])
}
