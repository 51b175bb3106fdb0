# Shared by the scripts in this folder: sourced first, never run. POSIX sh.

set -eu
exec </dev/null # stdin may be closed or a terminal; nothing here asks questions
cd "$(dirname "$0")/.."
root=$PWD

staticcheck_version=v0.8.2 # 2026.2.2
staticcheck=$root/.cache/bin/staticcheck

say() { printf '%s\n' "$*"; }
warn() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }

# cpu prints the seconds of CPU time, user and system, that the programs which have ended took. Usage: cpu <a file to use>
cpu() {
	times >"$1" # in a pipe it would be the time of another shell
	awk 'NR == 2 { split($1 "m" $2, t, /[ms]+/); printf "%d", (t[1] + t[3]) * 60 + t[2] + t[4] }' "$1"
}

# have tells whether all the named programs are in PATH.
have() {
	for program; do
		command -v "$program" >/dev/null 2>&1 || return 1
	done
}

# required tells whether nothing may be skipped.
required() { [ "${VITRINE_REQUIRE:-}" = all ]; }

# skip records that this machine lacks what a suite needs, as internal/needs does, or
# fails when nothing may be skipped. Usage: skip <suite> <why>
skip() {
	if required; then
		warn "$1: $2, and VITRINE_REQUIRE=all allows no skips (make tools installs what is missing)"
		return 1
	fi
	if [ -n "${VITRINE_SKIPS:-}" ]; then
		printf 'skipped\t%s\t%s\n' "$1" "$2" >>"$VITRINE_SKIPS"
	else
		say "skipped: $1: $2 (make tools installs it)"
	fi
}

# leave_out records that this run does without a suite. Usage: leave_out <suite>
leave_out() { printf 'left out\t%s\n' "$1" >>"$VITRINE_SKIPS"; }

# summary prints what was left out and what was skipped, as recorded in VITRINE_SKIPS.
summary() {
	sort -u "$VITRINE_SKIPS" | awk -F '\t' '
		$1 == "left out" { print "left out: " $2 " (make test-all runs it)" }
		$1 == "skipped" { print "skipped: " $2 ": " $3 " (make tools installs it)" }'
}

# test_module runs the tests of one module.
# Usage: test_module <folder> [flag of go test]...
# -count=1, because a cached result cannot know what has been installed since.
test_module() (
	cd "$1" && shift
	list=$(packages) || exit 1
	[ -z "$list" ] || go test -count=1 -timeout 10m "$@" $list
)

# nested_modules lists the folders of the Go modules below the root module, wherever
# they are, except those without Go code: e2e/jaeger only pins the version of a tool.
nested_modules() {
	find . \( -name '.?*' -o -name '_*' -o -name node_modules -o -name testdata \) -prune \
		-o -path './*/go.mod' -print | sort | while read -r file; do
		dir=${file%/go.mod}
		[ -z "$(find "$dir" -name '*.go' -print)" ] || say "${dir#./}"
	done
}

# tested_folders lists the folders with tests that are in a folder, or are that folder.
tested_folders() {
	find "$1" -name node_modules -prune -o -name '*_test.go' -print | sed 's|/[^/]*$||' | sort -u
}

# missing_tools lists the Debian packages whose programs are not in PATH, as far as a
# suite or lint needs them. make tools installs them.
missing_tools() {
	have prometheus promtool || say prometheus
	have chromium || have chromium-browser || have google-chrome || say chromium fonts-dejavu-core
	have nginx || say nginx
	have redis-server || say redis-server
	have systemd-analyze || say systemd
	have curl || say curl
	cc=$(go env CC)
	have "${cc%% *}" || say gcc libc6-dev
	have node || say nodejs
	have npm || say npm
}

# packages lists the packages of the module in the current folder. Some npm packages
# bring Go files along, and ./... finds those, too: -e, because their faults are not ours.
packages() {
	listed=$(go list -e ./...) || return 1
	say "$listed" | sed '/\/node_modules\//d'
}
