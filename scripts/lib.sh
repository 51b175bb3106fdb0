# Shared by the scripts in this folder: sourced first, never run. POSIX sh.

set -eu
exec </dev/null # stdin may be closed or a terminal; nothing here asks questions
cd "$(dirname "$0")/.."
root=$PWD

staticcheck_version=v0.8.2 # 2026.2.2
staticcheck=$root/.cache/bin/staticcheck

say() { printf '%s\n' "$*"; }
warn() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }

# have tells whether all the named programs are in PATH.
have() {
	for program; do
		command -v "$program" >/dev/null 2>&1 || return 1
	done
}

# required tells whether nothing may be skipped.
required() { [ "${VITRINE_REQUIRE:-}" = all ]; }

# skip records that a suite was skipped, as internal/needs does, or fails when nothing
# may be skipped. Usage: skip <suite> <why>
skip() {
	if required; then
		warn "$1: $2, and VITRINE_REQUIRE=all allows no skips (make tools installs what is missing)"
		return 1
	fi
	if [ -n "${VITRINE_SKIPS:-}" ]; then
		printf '%s\t%s\n' "$1" "$2" >>"$VITRINE_SKIPS"
	else
		say "skipped: $1: $2 (make tools installs it)"
	fi
}

# nested_modules lists the folders of the Go modules below the root module.
nested_modules() {
	for dir in e2e bench deploy/check deploy/lint; do
		if [ -f "$dir/go.mod" ]; then say "$dir"; fi
	done
}

# packages lists the packages of the module in the current folder. Some npm packages
# bring Go files along, and ./... finds those, too: -e, because their faults are not ours.
packages() {
	listed=$(go list -e ./...) || return 1
	say "$listed" | sed '/\/node_modules\//d'
}
