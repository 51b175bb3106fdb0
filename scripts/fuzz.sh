#!/bin/sh
# Runs each fuzz target of the root module for a while.
# Usage: scripts/fuzz.sh [duration]    for each target, as for go test -fuzztime; without it briefly, and from the seeds
. "$(dirname "$0")/lib.sh"

dir=$(mktemp -d)
log=$dir/log
# A second is not enough for the inputs of all earlier runs.
inputs=$dir/inputs
[ $# -eq 0 ] || inputs=$(go env GOCACHE)/fuzz
duration=${1:-1s}
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# fuzzed lists the packages with fuzz targets, as import path, blank, folder.
fuzzed() {
	go list -f '{{range .TestGoFiles}}{{$.ImportPath}} {{$.Dir}} {{.}}{{"\n"}}{{end}}{{range .XTestGoFiles}}{{$.ImportPath}} {{$.Dir}} {{.}}{{"\n"}}{{end}}' ./... |
		while read -r package folder file; do
			[ -z "$file" ] || ! grep -q '^func Fuzz' "$folder/$file" || say "$package $folder"
		done | sort -u
}

# known_race recognises a fault of Go before 1.27 (golang/go#75804): at the end of its
# time, fuzzing sometimes fails with "context deadline exceeded" and no failing input.
known_race() {
	grep -q '^ *context deadline exceeded$' "$log" && ! grep -q 'Failing input written' "$log"
}

# fuzz runs one target. Each package is linked once for all its targets, because linking takes
# longer than a short run. A run with a duration keeps new inputs where go test -fuzz keeps them.
# A short run that ends before it has tried an input of its own is repeated, longer.
# Usage: fuzz <package> <folder> <target> [duration]
fuzz() {
	if (cd "$2" && "$dir/fuzz.test" -test.run '^$' -test.fuzz "^$3\$" -test.fuzztime "${4:-$duration}" -test.fuzzminimizetime 20x \
		-test.fuzzcachedir "$inputs/$1") >"$log" 2>&1; then
		if grep -q '^fuzz: elapsed.* execs: ' "$log"; then
			say "ok $1 $3: $(grep '^fuzz: elapsed' "$log" | tail -n 1)"
		elif [ $# -lt 4 ]; then
			fuzz "$1" "$2" "$3" 4s
		elif [ "$4" = 4s ]; then
			fuzz "$1" "$2" "$3" 20s
		else
			say "FAILED $1 $3: $4 are not enough for its seeds"
			return 1
		fi
	elif known_race; then
		say "ok $1 $3: out of time (golang/go#75804)"
	else
		say "FAILED $1 $3"
		cat "$log"
		return 1
	fi
}

status=0
all=$(fuzzed) || exit 1
[ -n "$all" ] || { warn "no fuzz target found"; exit 1; }
while read -r package folder; do
	go test -vet=off -c -fuzz '^Fuzz' -o "$dir/fuzz.test" "$package" || { status=1; continue; }
	targets=$(cd "$folder" && "$dir/fuzz.test" -test.list '^Fuzz') || targets=
	[ -n "$targets" ] || { warn "$package lists no fuzz target"; status=1; }
	for target in $targets; do
		fuzz "$package" "$folder" "$target" || status=1
	done
done <<END
$all
END
exit "$status"
