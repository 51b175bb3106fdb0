#!/bin/sh
# Builds Jaeger, which is a tool of the module e2e/jaeger, into a cache that outlives
# this clone, because that takes minutes; or does nothing if it is there.
# Usage: scripts/jaeger.sh [path]    path only prints where it is, or would be
. "$(dirname "$0")/lib.sh"

# digest prints the SHA-256 of standard input.
digest() {
	if have sha256sum; then sha256sum; else shasum -a 256; fi | cut -c 1-16
}

module=github.com/jaegertracing/jaeger
version=$(sed -n "s|^[[:space:]]*$module \(v[^ ]*\).*|\1|p" e2e/jaeger/go.mod)
key=$version-$(go env GOOS)-$(go env GOARCH)-$(cat e2e/jaeger/go.mod e2e/jaeger/go.sum | digest)
jaeger=${XDG_CACHE_HOME:-$HOME/.cache}/vitrine/jaeger/$key/jaeger

if [ "${1:-}" = path ]; then
	say "$jaeger"
	exit 0
fi
if [ -x "$jaeger" ]; then
	say "jaeger: $version is there"
	exit 0
fi
say "jaeger: building $version, which takes minutes"
mkdir -p "${jaeger%/*}"
new=$jaeger.$$
trap 'rm -f "$new"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
if ! (cd e2e/jaeger && GOFLAGS= go build -buildvcs=false -o "$new" "$module/cmd/jaeger"); then
	warn "jaeger $version could not be built"
	exit 1
fi
mv "$new" "$jaeger" # at once, so that nobody meets half a program
