#!/bin/sh
# Compares what whole calls cost in this tree (BenchmarkCost of package server) with a commit, and
# fails if one costs more: one allocation, or 10 % more bytes. Other work of the machine hardly
# changes these figures. Rows that only one of them has are left out.
# Usage: scripts/regress.sh commit [rounds]    with rounds, also CPU time in turns: 10 % by the medians
. "$(dirname "$0")/lib.sh"

base=$1 rounds=${2:-0}
[ -n "$base" ] || { say 'usage: make regress BASE=<commit> (REGRESS_ROUNDS=9 compares CPU time too)' >&2; exit 2; }
dir=$(mktemp -d)
trap 'git worktree remove --force "$dir/tree" >/dev/null 2>&1; rm -rf "$dir"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

git worktree add --quiet --detach "$dir/tree" "$base" || exit 1
(cd "$dir/tree" && go test -c -o "$dir/before" ./server) || exit 1
go test -c -o "$dir/after" ./server || exit 1

# measure runs all rows of a program, and prints "name bytes allocations" of each. It fails if the program does.
measure() {
	(cd server && "$1" -test.run '^$' -test.bench '^BenchmarkCost$' -test.benchtime 3000x -test.benchmem) >"$dir/out" ||
		{ cat "$dir/out" >&2; return 1; }
	awk '/^BenchmarkCost/ { sub(/-[0-9]+$/, "", $1); print $1, $(NF-3), $(NF-1) }' "$dir/out"
}
measure "$dir/before" >"$dir/before.txt" && measure "$dir/after" >"$dir/after.txt" || exit 1

status=0
awk '
	NR == FNR { bytes[$1] = $2; allocs[$1] = $3; next }
	$1 in allocs {
		rows++
		worse = $3 > allocs[$1] || $2 > 1.10 * bytes[$1]
		printf "%-5s %-75s %6d -> %6d bytes %4d -> %4d allocations\n", worse ? "WORSE" : "ok", $1, bytes[$1], $2, allocs[$1], $3
		bad += worse
	}
	END { if (!rows) { print "no row is in both" ; exit 1 } exit bad > 0 }
' "$dir/before.txt" "$dir/after.txt" || status=1

# cpu prints the CPU time of one run of a program, in seconds.
cpu() {
	(cd server && "$1" -test.run '^$' -test.bench '^BenchmarkCost$' -test.benchtime 5000x >/dev/null; times) |
		awk 'NR == 2 { for (i = 1; i <= 2; i++) { split($i, t, /[ms]/); sum += 60 * t[1] + t[2] } print sum }'
}
if [ "$rounds" -gt 0 ]; then
	for round in $(seq "$rounds"); do
		say "$(cpu "$dir/before") $(cpu "$dir/after")" >>"$dir/cpu.txt"
	done
	awk '{ print $2 / $1 }' "$dir/cpu.txt" | sort -n | awk -v rounds="$rounds" '
		{ r[NR] = $1 }
		END {
			m = (r[int((NR + 1) / 2)] + r[int(NR / 2) + 1]) / 2
			printf "CPU time of all rows: %.2f times (%.2f to %.2f in %d rounds)\n", m, r[1], r[NR], rounds
			exit m > 1.10
		}' || status=1
fi
exit "$status"
