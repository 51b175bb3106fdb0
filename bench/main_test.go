package main

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"go.uber.org/goleak"
)

// TestMain lets the test binary be a server, since a server is the program itself.
func TestMain(m *testing.M) {
	if slices.Contains(os.Args, "-serve") {
		if err := run(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}
