package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/stretchr/testify/require"
)

// readBOM reads the bill of a program.
func readBOM(t *testing.T, program string) (b cdx.BOM, raw string) {
	t.Helper()
	data, err := os.ReadFile(program + ".cdx.json")
	require.NoError(t, err)
	require.NoError(t, cdx.NewBOMDecoder(strings.NewReader(string(data)), cdx.BOMFileFormatJSON).Decode(&b))
	return b, string(data)
}

// versions are the versions of all components, by their package URLs without the version.
func versions(b cdx.BOM) map[string]string {
	all := map[string]string{}
	for _, c := range *b.Components {
		purl, _, _ := strings.Cut(c.PackageURL, "@")
		all[purl] = c.Version
	}
	return all
}

// The bill of a program, which is this test, has its modules and its Go, and does not depend on
// when it was written.
func TestBOMListsTheModulesOfAProgram(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	program := filepath.Join(t.TempDir(), "program")
	data, err := os.ReadFile(self)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(program, data, 0o755))
	require.NoError(t, run([]string{"sbom", program}))
	b, first := readBOM(t, program)

	all := versions(b)
	require.Equal(t, strings.TrimPrefix(runtime.Version(), "go"), all["pkg:golang/std"])
	mod, err := os.ReadFile("go.mod")
	require.NoError(t, err)
	for _, library := range []string{"github.com/CycloneDX/cyclonedx-go", "github.com/google/go-containerregistry"} {
		require.Contains(t, string(mod), library+" "+all["pkg:golang/"+strings.ToLower(library)]+"\n")
	}
	require.NotContains(t, all, "pkg:golang/golang.org/x/vuln", "no package of this module is in the program")
	require.Equal(t, cdx.ComponentTypeApplication, b.Metadata.Component.Type)
	require.Regexp(t, `^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, b.SerialNumber)

	require.NoError(t, run([]string{"sbom", program}))
	_, second := readBOM(t, program)
	require.Equal(t, first, second)
	require.NoError(t, os.WriteFile(program, append(data, 0), 0o755))
	require.NoError(t, run([]string{"sbom", program}))
	other, _ := readBOM(t, program)
	require.NotEqual(t, b.SerialNumber, other.SerialNumber)
	require.NotEqual(t, b.Metadata.Component.Hashes, other.Metadata.Component.Hashes)
}

// A file that is not a program of Go has no bill.
func TestBOMOfSomethingElseFails(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, []byte("#!/bin/sh\n"), 0o755))
	require.ErrorContains(t, run([]string{"sbom", file}), file)
	require.NoFileExists(t, file+".cdx.json")
}
