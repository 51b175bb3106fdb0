#!/bin/sh
# Runs what tells whether the tree can be trusted, on a machine that has Go and nothing
# else: the unit tests of the root module, and one pass over the real programs, over HTTP
# and over stdio. Then tells what it has left out. scripts/test-all.sh runs everything.
. "$(dirname "$0")/lib.sh"

if required; then
	warn "VITRINE_REQUIRE=all allows no skips, and make test leaves suites out: use make test-all"
	exit 1
fi
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
VITRINE_SKIPS=$tmp/skips
export VITRINE_SKIPS
: >"$VITRINE_SKIPS"

# Lint runs go vet. go test would run a part of it again, and with an empty build cache on every package that is imported.
failed=
say "== tests"
test_module . -short -vet=off || failed="$failed tests"
say "== end to end: the real programs, over HTTP and stdio"
(cd e2e && go test -count=1 -timeout 10m -short -vet=off .) || failed="$failed end-to-end"

for suite in "race detector" lint fuzzing $(nested_modules) $(tested_folders e2e); do
	[ "$suite" = e2e ] || leave_out "$suite"
done

say "== summary"
summary
missing=$(missing_tools | tr '\n' ' ')
[ -z "$missing" ] || say "make test-all would also want (make tools installs them): $missing"
if [ -n "$failed" ]; then
	say "FAILED: $failed"
	exit 1
fi
say "passed"
