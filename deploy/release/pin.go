package main

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// imageLine finds the lines that name an image, in a Dockerfile, in an environment file of
// Compose, and in YAML. An image that a variable names is pinned where the variable is set.
var imageLine = regexp.MustCompile(`(?m)^(ARG [A-Z_]*IMAGE=|[A-Z_]+_IMAGE=|\s*(?:- )?image: "?|FROM (?:--platform=\S+ )?)([^\s"$@{]+)(@sha256:[0-9a-f]{64})?(".*| .*)?$`)

// ours are the images that are built from this repository. Their digests are known when they have
// been pushed.
var ours = map[string]bool{"vitrine-mcp/vitrine": true, "vitrine-compose": true}

// pinFiles adds its digest to each image that the files name by a tag. If one is not to be had, it
// changes no file.
func pinFiles(files []string, digest func(image string) (string, error)) error {
	texts := make([]string, len(files))
	var all error
	for i, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		pinned, images, err := pin(string(text), digest)
		if err != nil {
			all = errors.Join(all, fmt.Errorf("%s: %w", file, err))
		}
		if images == 0 {
			all = errors.Join(all, fmt.Errorf("%s names no image", file))
		}
		texts[i] = pinned
	}
	if all != nil {
		return all
	}
	for i, file := range files {
		if err := os.WriteFile(file, []byte(texts[i]), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// pin returns a text with its images pinned, and how many images of others it names.
func pin(text string, digest func(image string) (string, error)) (pinned string, images int, all error) {
	pinned = imageLine.ReplaceAllStringFunc(text, func(line string) string {
		m := imageLine.FindStringSubmatch(line)
		before, image, known, after := m[1], m[2], m[3], m[4]
		repository, tag, _ := strings.Cut(image[strings.LastIndexByte(image, '/')+1:], ":")
		repository = image[:strings.LastIndexByte(image, '/')+1] + repository
		switch {
		case image == "scratch" || ours[repository]:
			return line
		case known != "":
			images++
			return line
		case tag == "":
			all = errors.Join(all, fmt.Errorf("the image %s has neither a tag nor a digest", image))
			return line
		}
		images++
		sum, err := digest(image)
		if err != nil {
			all = errors.Join(all, fmt.Errorf("the digest of %s: %w", image, err))
			return line
		}
		return before + image + "@" + sum + after
	})
	return pinned, images, all
}

// A resolver asks registries. With a mirror, it asks that one for all images.
type resolver struct{ mirror string }

// digest returns the digest of an image, or of the index of an image for several platforms.
func (r resolver) digest(image string) (string, error) {
	tag, err := name.NewTag(image)
	if err != nil {
		return "", err
	}
	if r.mirror != "" {
		if tag, err = name.NewTag(r.mirror + "/" + tag.RepositoryStr() + ":" + tag.TagStr()); err != nil {
			return "", err
		}
	}
	found, err := remote.Head(tag)
	if err != nil {
		return "", err
	}
	return found.Digest.String(), nil
}
