#!/bin/sh
# Does what somebody does who has found the README: clones this checkout, as it is
# committed, and runs the README's two commands. The clone is on its own: its module cache
# and its build cache are empty, and PATH has Go, git, make and the usual small programs,
# but no C compiler, because Go does not need one, and none of the tools that make tools
# installs.
. "$(dirname "$0")/lib.sh"

tmp=$(mktemp -d)
server=
finish() {
	trap - EXIT
	trap '' INT TERM # timeout signals twice, and what is here is large
	[ -z "$server" ] || kill "$server" 2>/dev/null || true
	chmod -R u+w "$tmp" # a module cache is read-only
	rm -rf "$tmp"
}
trap finish EXIT
trap 'finish; exit 130' INT
trap 'finish; exit 143' TERM

curl=$(command -v curl) || { warn "no curl in PATH (make tools installs it)"; exit 1; }
# fetch calls the server; curl is ours, the newcomer's PATH has none.
fetch() { "$curl" -sS --fail --max-time 20 "$@"; }

mkdir "$tmp/bin"
for program in go git make sh \
	awk basename cat chmod cp cut date dirname env find grep head id kill ln ls mkdir mktemp mv rm sed sleep sort tail touch tr uname wc xargs; do
	path=$(command -v "$program") || { warn "no $program in PATH"; exit 1; }
	case $path in
	/*) ln -s "$path" "$tmp/bin/$program" ;; # the others are built into the shell
	esac
done
git clone -q "$root" "$tmp/clone"
cd "$tmp/clone"
say "newcomer: $(git log -1 --format='%h %s')"
PATH=$tmp/bin GOMODCACHE=$tmp/mod GOCACHE=$tmp/build
export PATH GOMODCACHE GOCACHE
unset VITRINE_REQUIRE

# The commands are the README's own, without their comments.
commands=$(awk '/^```/ { if (seen) exit; seen = 1; next } seen { sub(/ *#.*/, ""); print }' README.md)
serve=$(say "$commands" | sed -n 1p)
test=$(say "$commands" | sed -n 2p)
case $serve/$test/$(say "$commands" | wc -l | tr -d ' ') in
"go run "*" serve/make test/2") ;;
*)
	warn "the README does not begin with go run and make test: $commands"
	exit 1
	;;
esac

# await waits until a line of the server's log has the pattern, and prints what it is.
await() {
	tries=0
	until found=$(sed -n "$1" "$tmp/log") && [ -n "$found" ]; do
		tries=$((tries + 1))
		if [ "$tries" -gt 9000 ] || [ -e "$tmp/ended" ]; then
			warn "the server does not say where it is"
			cat "$tmp/log" >&2
			return 1
		fi
		sleep 0.1
	done
	say "$found" | head -n 1
}

# go run starts the server with this program, so that we know the server's own id.
cat >"$tmp/start" <<END
#!/bin/sh
echo \$\$ >$tmp/id
exec "\$@"
END
chmod +x "$tmp/start"

say "== $serve"
began=$(date +%s)
(
	code=0
	GOFLAGS="${GOFLAGS:-} -exec=$tmp/start" $serve --addr 127.0.0.1:0 --admin-addr 127.0.0.1:0 >"$tmp/log" 2>&1 || code=$?
	echo "$code" >"$tmp/ended"
) &
runner=$!
admin=$(await 's|^ *metrics *\(http://[^/]*\)/.*|\1|p')
mcp=$(await 's|.*"url":"\([^"]*\)".*|\1|p')
server=$(cat "$tmp/id")
answer=$(fetch "$mcp" -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' \
	-d '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"newcomer","version":"1"}}}')
say "$answer" | grep '"protocolVersion":"2025-11-25"'
fetch "$admin/metrics" | grep '^mcp_server_operation_duration_seconds_count'
kill "$server"
wait "$runner"
server=
say "the server answered, was scraped and ended with code $(cat "$tmp/ended"): $(($(date +%s) - began)) s"
[ "$(cat "$tmp/ended")" -eq 0 ]

say "== $test"
began=$(date +%s)
$test
cpu "$tmp/times" >"$tmp/cpu"
say "make test: $(($(date +%s) - began)) s, and all that has run here $(cat "$tmp/cpu") s of CPU time"
