#!/bin/sh
# Runs all tests of all modules, with the race detector, then tells what was skipped and why. With VITRINE_REQUIRE=all it
# skips nothing: what is missing is a failure, and lint and fuzzing run as well.
. "$(dirname "$0")/lib.sh"

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
VITRINE_SKIPS=$tmp/skips
export VITRINE_SKIPS
: >"$VITRINE_SKIPS"

# Without the folder of this clone in what is compiled, the build cache serves all clones.
GOFLAGS="${GOFLAGS:-} -trimpath"
export GOFLAGS

failed=
fail() {
	failed="$failed
FAILED:  $1"
}

# step runs one part of the tests, says how long it took, and goes on whether or not it passes.
step() {
	title=$1
	shift
	say "== $title"
	began=$(date +%s)
	cpu "$tmp/times" >"$tmp/began"
	"$@" || fail "$title"
	cpu "$tmp/times" >"$tmp/ended"
	say "   took $(($(date +%s) - began)) s, and $(($(cat "$tmp/ended") - $(cat "$tmp/began"))) s of CPU time"
}

# no_race prints why the race detector cannot be used, or nothing if it can.
no_race() {
	cc=$(go env CC)
	if ! have "${cc%% *}"; then
		say "no C compiler"
	elif [ "$(go env CGO_ENABLED)" != 1 ]; then
		say "CGO_ENABLED=0"
	elif ! go build -race runtime/cgo >"$tmp/race" 2>&1; then
		say "go build -race fails: $(tail -n 1 "$tmp/race")"
	fi
}

if required; then
	step "lint" scripts/lint.sh
else
	step "gofmt and go vet" scripts/lint.sh quick
fi

# main_module runs the tests of the main module, with the race detector if there is one. internal/archtest reads
# source code and starts commands: the detector finds nothing in it, and would make it six times as slow.
main_module() (
	list=$(packages) || exit 1
	code=0
	# Those that take longest come first, so that none of them runs alone at the end. Some wait for servers: three at a time.
	go test -count=1 -timeout 10m -vet=off -p 3 $race ./server ./internal/session ./internal/changes \
		$(say "$list" | sed '/\/internal\/archtest$/d; /\/server$/d; /\/internal\/session$/d; /\/internal\/changes$/d') || code=1
	go test -count=1 -timeout 10m -vet=off ./internal/archtest || code=1
	exit "$code"
)

# budgets runs the tests of budgets of allocations, in the packages that have some.
budgets() {
	folders=$(go list -f '{{range .TestGoFiles}}{{$.Dir}}/{{.}} {{end}}{{range .XTestGoFiles}}{{$.Dir}}/{{.}} {{end}}' ./... |
		xargs grep -l '^func Test.*Allocations' | xargs -n 1 dirname | sort -u)
	[ -n "$folders" ] && go test -count=1 -vet=off -run Allocations $folders
}

race=-race
why=$(no_race)
if [ -n "$why" ]; then
	race=
	say "race detector: off ($why)"
	skip "race detector" "$why" || fail "race detector"
fi
# go vet has looked at all packages, so that go test need not.
step "tests" main_module
if [ -n "$race" ]; then
	step "allocation budgets, without the race detector" budgets
fi
if required; then
	step "fuzzing" scripts/fuzz.sh
fi
# They drive real processes and mostly wait for those, so that more tests than there are cores
# run at once.
for module in $(nested_modules); do
	step "tests of $module" test_module "$module" -vet=off -p 3 -parallel 6 -timeout 20m
done

say "== summary"
summary
if [ -n "$failed" ]; then
	say "${failed#?}"
	exit 1
fi
say "passed"
