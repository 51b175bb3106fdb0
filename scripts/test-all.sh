#!/bin/sh
# Runs all tests of all modules, with the race detector, then tells what was skipped and why. With VITRINE_REQUIRE=all it
# skips nothing: what is missing is a failure, and lint and fuzzing run as well.
. "$(dirname "$0")/lib.sh"

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'trap "" TERM; kill 0; exit 130' INT # what runs in the background does not get the signal of the terminal
trap 'exit 143' TERM
VITRINE_SKIPS=$tmp/skips
export VITRINE_SKIPS
: >"$VITRINE_SKIPS"

# Without the folder of this clone in what is compiled, the build cache serves all clones.
GOFLAGS="${GOFLAGS:-} -trimpath"
export GOFLAGS

lane=main # what runs one step after the other
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
	cpu "$tmp/$lane.times" >"$tmp/$lane.began"
	"$@" || fail "$title"
	cpu "$tmp/$lane.times" >"$tmp/$lane.ended"
	say "   took $(($(date +%s) - began)) s, and $(($(cat "$tmp/$lane.ended") - $(cat "$tmp/$lane.began"))) s of CPU time"
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

# plain are the packages whose tests the race detector would make six to ten times as slow, to find nothing: they read source
# code and start commands, or one goroutine computes. Tests of theirs that start goroutines run with it as well.
plain="./internal/archtest ./internal/changes ./internal/jsonvalue ./internal/limits ./internal/wire
	./server/internal/schema ./server/internal/schema/evaluate"

# concurrent runs, with the race detector, the tests of those files of the plain packages that start goroutines.
concurrent() {
	files=$(for package in $plain; do grep -lE '^[[:space:]]*go [a-zA-Z.]+\(|\.Go\(|\.Parallel\(' "$package"/*.go || true; done)
	if say "$files" | grep -v '_test\.go$'; then
		warn "these start goroutines: their packages are not plain"
		return 1
	fi
	tests=$(grep -ho '^func Test[A-Za-z0-9_]*' $files | awk '{ printf "%s%s", (NR == 1 ? "" : "|"), $2 }')
	go test -count=1 -timeout 10m -vet=off -p 3 -race -run "^($tests)\$" $(say "$files" | xargs -n 1 dirname | sort -u)
}

# main_module runs the tests of the main module, with the race detector if there is one.
main_module() (
	apart=$(go list $plain) && list=$(packages) || exit 1
	list=$(say "$list" | grep -Fxv "$apart")
	code=0
	# Those that take longest come first, so that none of them runs alone at the end. Some wait for servers: three at a time.
	go test -count=1 -timeout 10m -vet=off -p 3 $race ./server ./internal/session ./store/redisstore \
		$(say "$list" | sed '/\/vitrine\/server$/d; /\/internal\/session$/d; /\/store\/redisstore$/d') || code=1
	go test -count=1 -timeout 10m -vet=off -p 3 $plain || code=1
	[ -z "$race" ] || concurrent || code=1
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

# nested runs the tests of some nested modules, in the order given. They drive real processes and mostly wait for those, so that more
# tests than there are cores run at once.
nested() {
	for module; do
		step "tests of $module" test_module "$module" -vet=off -p 3 -parallel 6 -timeout 20m
	done
}

# e2e has the machine to itself, because it measures what attackers may take. The others go in two lanes. The CPU time of a lane
# that has ended counts in the step of the other one that runs then, too.
{
	lane=deploy failed=
	nested $(nested_modules | grep '^deploy/')
	say "$failed" >"$tmp/failed"
} >"$tmp/deploy" 2>&1 &
if required; then
	step "fuzzing" scripts/fuzz.sh
fi
nested $(nested_modules | grep -v -e '^deploy/' -e '^e2e$')
wait
cat "$tmp/deploy"
failed="$failed$(cat "$tmp/failed")"
nested e2e

say "== summary"
summary
if [ -n "$failed" ]; then
	say "${failed#?}"
	exit 1
fi
say "passed"
