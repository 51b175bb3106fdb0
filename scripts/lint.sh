#!/bin/sh
# Checks the Go code of all modules: gofmt, go vet, staticcheck.
# Usage: scripts/lint.sh [quick]    quick leaves out staticcheck
. "$(dirname "$0")/lib.sh"

check_format() {
	gofmt=gofmt
	have gofmt || gofmt=$(go env GOROOT)/bin/gofmt
	unformatted=$(find . \( -name .git -o -name .cache -o -name node_modules -o -name testdata \) -prune \
		-o -name '*.go' -type f -exec "$gofmt" -l {} +) || return 1
	if [ -n "$unformatted" ]; then
		warn "gofmt -w would change:"
		say "$unformatted" >&2
		return 1
	fi
}

# in_module runs a checker on all packages of one module.
in_module() (
	cd "$1" && shift
	list=$(packages) || exit 1
	[ -z "$list" ] || "$@" $list
)

status=0
say "gofmt"
check_format || status=1
for module in . $(nested_modules); do
	say "go vet ($module)"
	in_module "$module" go vet || status=1
done
if [ "${1:-}" = quick ]; then
	exit "$status"
fi
if [ -x "$staticcheck" ]; then
	for module in . $(nested_modules); do
		say "staticcheck ($module)"
		in_module "$module" "$staticcheck" || status=1
	done
else
	skip staticcheck "not installed" || status=1
fi
exit "$status"
