#!/bin/sh
# Runs each fuzz target of the root module for a while.
# Usage: scripts/fuzz.sh [duration]    for each target, as for go test -fuzztime
. "$(dirname "$0")/lib.sh"

duration=${1:-1s}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# targets lists one fuzz target on a line, as package, blank, name.
targets() {
	list=$(packages) || return 1
	listed=$(go test -vet=off -list '^Fuzz' $list) || { say "$listed" >&2; return 1; }
	say "$listed" | awk '/^Fuzz/ { name[n++] = $1 } $1 == "ok" { for (i = 0; i < n; i++) print $2, name[i]; n = 0 }'
}

# known_race recognises a fault of Go before 1.27 (golang/go#75804): at the end of its
# time, fuzzing sometimes fails with "context deadline exceeded" and no failing input.
known_race() {
	grep -q '^ *context deadline exceeded$' "$log" && ! grep -q 'Failing input written' "$log"
}

status=0
all=$(targets) || exit 1
while read -r package name; do
	[ -n "$name" ] || continue
	if go test -run '^$' -fuzz "^$name\$" -fuzztime "$duration" -fuzzminimizetime 20x "$package" >"$log" 2>&1; then
		say "ok $package $name: $(grep '^fuzz: elapsed' "$log" | tail -n 1)"
	elif known_race; then
		say "ok $package $name: out of time (golang/go#75804)"
	else
		say "FAILED $package $name"
		cat "$log"
		status=1
	fi
done <<END
$all
END
exit "$status"
