package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// writeBOM writes the software bill of materials of a program beside it, as CycloneDX in JSON.
func writeBOM(program string) error {
	data, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	info, err := buildinfo.Read(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("%s: %w", program, err)
	}
	var out bytes.Buffer
	if err := cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom(filepath.Base(program), data, info)); err != nil {
		return fmt.Errorf("%s: %w", program, err)
	}
	return os.WriteFile(program+".cdx.json", out.Bytes(), 0o644)
}

// bom is what a program consists of, as its linker has recorded: the standard library, and each
// module of which a package is in it. The same program has the same bill.
func bom(name string, data []byte, info *buildinfo.BuildInfo) *cdx.BOM {
	sum := sha256.Sum256(data)
	main := module(&info.Main)
	main.Type, main.Name = cdx.ComponentTypeApplication, name
	main.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}}
	properties := []cdx.Property{{Name: "go:package", Value: info.Path}}
	b := cdx.NewBOM()
	b.SerialNumber = "urn:uuid:" + uuid(sum)
	b.Metadata = &cdx.Metadata{}
	for _, s := range info.Settings {
		if s.Key == "vcs.time" {
			b.Metadata.Timestamp = s.Value
		}
		properties = append(properties, cdx.Property{Name: "go:build:" + s.Key, Value: s.Value})
	}
	main.Properties = &properties
	b.Metadata.Component = &main

	version := strings.TrimPrefix(strings.Fields(info.GoVersion)[0], "go")
	components := []cdx.Component{{
		BOMRef: "std", Type: cdx.ComponentTypeLibrary, Name: "std", Version: version, PackageURL: "pkg:golang/std@" + version,
	}}
	for _, dep := range info.Deps {
		components = append(components, module(dep))
	}
	b.Components = &components
	return b
}

// uuid makes a UUID of version 8 (RFC 9562), whose bits are for the application to choose.
func uuid(sum [sha256.Size]byte) string {
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

// module is a module as a component. If another one replaces it, that one is in the program.
func module(m *debug.Module) cdx.Component {
	if m.Replace != nil {
		m = m.Replace
	}
	// The specification of package URLs wants names of Go in small letters.
	purl := "pkg:golang/" + strings.ToLower(m.Path) + "@" + url.QueryEscape(m.Version)
	c := cdx.Component{BOMRef: m.Path + "@" + m.Version, Type: cdx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, PackageURL: purl}
	if m.Sum != "" {
		c.Properties = &[]cdx.Property{{Name: "go:sum", Value: m.Sum}}
	}
	return c
}
