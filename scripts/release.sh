#!/bin/sh
# Makes a release in dist/: the demonstration service for each platform, with the list of what is
# in it; a copy of the files of deploy/ whose images are pinned by their digests; and checksums.
# Each program is checked against the database of known vulnerabilities. What cannot be done fails
# the release, and the script says what that was.
# DRAFT=1 makes what can be made, and says what is missing. It is not for publication.
# Other settings: OUT (dist), PLATFORMS, VULNDB (the URL of the database, or file:// with a copy),
# MIRROR (the host of a registry that has copies of all images).
# It runs on Linux, also for the programs of other systems: it needs sha256sum.
. "$(dirname "$0")/lib.sh"

out=${OUT:-dist}
platforms=${PLATFORMS:-linux/amd64 linux/arm64 darwin/arm64}
database=${VULNDB:-https://vuln.go.dev}
tools=$root/.cache/bin
unset GOFLAGS

failed=
missing=
# cannot records what could not be done. Usage: cannot <what> <why>
cannot() {
	if [ "${DRAFT:-}" = 1 ]; then
		missing="$missing
missing: $1: $2"
	else
		warn "$1: $2"
		failed="$failed, $1"
	fi
}

# build builds the demonstration service as the Dockerfile does. Usage: build <platform> <file> <linker flags>
build() {
	CGO_ENABLED=0 GOOS=${1%/*} GOARCH=${1#*/} go build -mod=readonly -trimpath -buildvcs=auto -tags=grpcnotrace -ldflags="$3" -o "$2" ./cmd/vitrine
}

# check_vulnerabilities looks for functions with known vulnerabilities in a program. A stripped
# program does not tell which functions it has, so that another one is built. Usage: check_vulnerabilities <platform>
check_vulnerabilities() {
	build "$1" "$tmp/program" "-buildid=" || return 1
	code=0
	"$tools/govulncheck" -db "$database" -mode binary "$tmp/program" >"$tmp/report" 2>&1 || code=$?
	case $code in
	0) say "$1: no known vulnerability" ;;
	3)
		cat "$tmp/report" >&2
		failed="$failed, known vulnerabilities"
		;;
	*) cannot "vulnerabilities of $1" "$(tail -n 1 "$tmp/report") ($database)" ;;
	esac
}

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
rm -rf "$out"
mkdir -p "$out" "$tools"
out=$(cd "$out" && pwd)

toolchain=$(sed -n 's/^toolchain //p' go.mod)
[ "$(go env GOVERSION)" = "$toolchain" ] || cannot "Go" "this is $(go env GOVERSION), and go.mod names $toolchain"
if ! state=$(git status --porcelain 2>&1) || [ -n "$state" ]; then
	cannot "working copy" "it has changes, or no history"
fi

say "== tools"
go build -C deploy/release -buildvcs=false -o "$tools/release" .
go build -C deploy/release -buildvcs=false -o "$tools/govulncheck" golang.org/x/vuln/cmd/govulncheck

say "== programs"
for platform in $platforms; do
	file=$out/vitrine-${platform%/*}-${platform#*/}
	build "$platform" "$file" "-s -w -buildid="
	"$tools/release" sbom "$file"
	check_vulnerabilities "$platform"
done

say "== images"
mkdir -p "$out/deploy"
cp -R deploy/container deploy/compose deploy/helm deploy/replicas "$out/deploy"
rm -f "$out/deploy/replicas/state-keys.txt" # the secret keys of this machine, which git ignores and cp does not
if ! (cd "$out/deploy" && "$tools/release" pin -mirror "${MIRROR:-}" container/Dockerfile compose/.env helm/vitrine/values.yaml replicas/.env) 2>"$tmp/report"; then
	cannot "digests of images" "$(cat "$tmp/report")"
fi

say "== checksums"
(cd "$out" && find . -type f ! -name SHA256SUMS | LC_ALL=C sort | xargs sha256sum >SHA256SUMS)

if [ -n "$failed" ]; then
	warn "no release: ${failed#, }"
	exit 1
fi
if [ -n "$missing" ]; then
	say "a draft, not for publication:$missing"
fi
say "$out"
