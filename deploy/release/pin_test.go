package main

import (
	"errors"
	"io"
	"io/fs"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/require"
)

const sum = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// Each line that names an image of others by a tag gets its digest, and no other line changes.
func TestPinAddsDigests(t *testing.T) {
	digest := func(image string) (string, error) {
		if strings.HasSuffix(image, ":lost") {
			return "", errors.New("not found")
		}
		return sum, nil
	}
	for before, after := range map[string]string{
		"ARG GO_IMAGE=golang:1.26.8":            "ARG GO_IMAGE=golang:1.26.8@" + sum,
		"FROM golang:1.26.8 AS build":           "FROM golang:1.26.8@" + sum + " AS build",
		"FROM --platform=${B} golang:1 AS b":    "FROM --platform=${B} golang:1@" + sum + " AS b",
		"JAEGER_IMAGE=jaegertracing/jaeger:2.1": "JAEGER_IMAGE=jaegertracing/jaeger:2.1@" + sum,
		"  image: curlimages/curl:8.11.1":       "  image: curlimages/curl:8.11.1@" + sum,
		`  - image: "ghcr.io:443/a/b:1" # why`:  `  - image: "ghcr.io:443/a/b:1@` + sum + `" # why`,
		"FROM scratch":                          "FROM scratch",
		"FROM --platform=${B} ${GO_IMAGE} AS b": "FROM --platform=${B} ${GO_IMAGE} AS b",
		"image: vitrine-mcp/vitrine:0.1.0":      "image: vitrine-mcp/vitrine:0.1.0",
		"FROM golang:1@" + sum:                  "FROM golang:1@" + sum,
		"  image: {{ .Values.image }}":          "  image: {{ .Values.image }}",
		"# FROM golang:1":                       "# FROM golang:1",
	} {
		got, _, err := pin("a\n"+before+"\nb\n", digest)
		require.NoError(t, err)
		require.Equal(t, "a\n"+after+"\nb\n", got)
	}
	for text, want := range map[string]string{
		"FROM golang":                     "neither a tag nor a digest",
		"FROM localhost:5000/golang":      "neither a tag nor a digest",
		"A_IMAGE=x:lost\nB_IMAGE=y:lost":  "y:lost",
		"A_IMAGE=x:lost\nB_IMAGE=y:1.2.3": "x:lost",
	} {
		_, _, err := pin(text, digest)
		require.ErrorContains(t, err, want)
	}
}

// images are the images of others that the files of a release name.
var images = []string{
	"golang:1.26.8", "prom/prometheus:v3.5.0", "otel/opentelemetry-collector-contrib:0.140.0", "jaegertracing/jaeger:2.13.0",
	"grafana/grafana:12.3.1", "keycloak/keycloak:26.4.5", "nginx:1.28.0", "redis:7.2.11", "curlimages/curl:8.11.1",
}

// pinnedFiles are the files below deploy/ that name images of others. scripts/release.sh pins them.
var pinnedFiles = []string{"compose/.env", "container/Dockerfile", "helm/vitrine/values.yaml", "replicas/.env"}

// A new file with an image of others must be added to pinnedFiles and to scripts/release.sh. The test skips
// pages (.md), because people read and type what they say, and the Go modules.
func TestPinnedFilesAreAllThatNameImages(t *testing.T) {
	digest := func(string) (string, error) { return sum, nil }
	var found []string
	require.NoError(t, fs.WalkDir(os.DirFS(".."), ".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			if _, err := os.Stat(filepath.Join("..", path, "go.mod")); err == nil {
				return fs.SkipDir
			}
			return nil
		case strings.HasSuffix(path, ".md"):
			return nil
		}
		_, images, err := pin(read(t, []string{filepath.Join("..", path)}), digest)
		require.NoError(t, err, path)
		if images > 0 {
			found = append(found, path)
		}
		return nil
	}))
	require.ElementsMatch(t, pinnedFiles, found)
}

// newMirror starts a registry that has some images, and returns its host and their digests.
func newMirror(t *testing.T, images []string) (host string, digests map[string]string) {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	host = strings.TrimPrefix(server.URL, "http://")
	digests = map[string]string{}
	for _, image := range images {
		index, err := random.Index(100, 1, 2)
		require.NoError(t, err)
		path := image
		if !strings.Contains(path, "/") {
			path = "library/" + path
		}
		tag, err := name.NewTag(host + "/" + path)
		require.NoError(t, err)
		require.NoError(t, remote.WriteIndex(tag, index))
		hash, err := index.Digest()
		require.NoError(t, err)
		digests[image] = hash.String()
	}
	return host, digests
}

// copies copies the files of a release that name images.
func copies(t *testing.T) (files []string) {
	t.Helper()
	dir := t.TempDir()
	for _, file := range pinnedFiles {
		text, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(file)))
		require.NoError(t, err)
		files = append(files, filepath.Join(dir, strings.ReplaceAll(file, "/", "-")))
		require.NoError(t, os.WriteFile(files[len(files)-1], text, 0o644))
	}
	return files
}

func read(t *testing.T, files []string) string {
	t.Helper()
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		all.Write(text)
	}
	return all.String()
}

// All images of the files of a release are pinned to what the registry has.
func TestPinAsksTheRegistry(t *testing.T) {
	host, digests := newMirror(t, images)
	files := copies(t)
	require.NoError(t, run(append([]string{"pin", "-mirror", host}, files...)))
	text := read(t, files)
	for image, digest := range digests {
		require.Contains(t, text, image+"@"+digest)
	}
	require.Equal(t, len(images), strings.Count(text, "@sha256:"))
}

// If the registry lacks an image, or does not answer, no file changes.
func TestPinChangesNothingIfAnImageIsMissing(t *testing.T) {
	lacking, _ := newMirror(t, images[:len(images)-1])
	for host, want := range map[string]string{lacking: images[len(images)-1], "127.0.0.1:1": images[0]} {
		files := copies(t)
		before := read(t, files)
		require.ErrorContains(t, run(append([]string{"pin", "-mirror", host}, files...)), "the digest of "+want)
		require.Equal(t, before, read(t, files))
	}
	require.ErrorContains(t, run([]string{"pin", "-mirror", lacking, "go.mod"}), "go.mod names no image")
}
