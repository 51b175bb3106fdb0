#!/bin/sh
# Installs what the integration suites and the linter need, and nothing that is
# already there: Debian packages with apt-get, npm packages below e2e/node, staticcheck
# below .cache, Jaeger in a cache of the user. Where there is no apt-get it says what to
# install by hand.
. "$(dirname "$0")/lib.sh"

as_root() {
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	elif have sudo; then
		sudo ${CI:+-n} "$@" # in continuous integration nobody types a password
	else
		warn "neither root nor sudo, cannot run: $*"
		return 1
	fi
}

install_packages() {
	missing=$(missing_tools | tr '\n' ' ')
	if [ -z "$missing" ]; then
		say "Debian packages: all there"
		return 0
	fi
	if ! have apt-get; then
		warn "no apt-get here, please install by hand: $missing"
		return 1
	fi
	say "Debian packages: installing $missing"
	# Debian starts the services that it installs, unless this program says 101.
	policy=/usr/sbin/policy-rc.d
	if [ -e "$policy" ]; then
		policy=
	else
		as_root sh -c "printf '#!/bin/sh\nexit 101\n' >$policy && chmod 755 $policy" || return 1
		trap 'as_root rm -f "$policy"' EXIT
		trap 'exit 130' INT
		trap 'exit 143' TERM
	fi
	result=0
	as_root apt-get -q update || warn "apt-get update failed, going on with the old lists"
	as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 \
		install --no-install-recommends $missing || result=1
	if [ -n "$policy" ]; then
		as_root rm -f "$policy"
		trap - EXIT INT TERM
	fi
	now=
	[ ! -d /run/systemd/system ] || now=--now # without systemd as init there is nothing to stop
	for service in prometheus nginx redis-server; do
		case " $missing" in
		*" $service "*)
			if have systemctl && systemctl is-enabled -q "$service" 2>/dev/null; then
				as_root systemctl disable -q $now "$service" || result=1
			fi
			;;
		esac
	done
	[ "$result" -eq 0 ] || warn "apt-get could not install: $missing"
	return "$result"
}

install_npm_packages() (
	[ -f e2e/node/package-lock.json ] || exit 0
	cd e2e/node
	stamp=node_modules/.vitrine-lock # the lock file that was installed last
	if cmp -s package-lock.json "$stamp"; then
		say "npm packages: all there"
		exit 0
	fi
	if ! have npm; then
		warn "no npm here, cannot install the packages of e2e/node"
		exit 1
	fi
	say "npm packages: installing those of e2e/node"
	if ! npm ci --no-audit --no-fund --no-update-notifier; then
		warn "npm ci failed in e2e/node"
		exit 1
	fi
	cp package-lock.json "$stamp"
)

# A staticcheck that was built by an older Go refuses newer code, so the version of Go
# counts as well.
install_staticcheck() {
	built=$(go version -m "$staticcheck" 2>/dev/null) || built=
	case $built in
	"$staticcheck: $(go env GOVERSION)"*"honnef.co/go/tools	$staticcheck_version"*)
		say "staticcheck: $staticcheck_version is there"
		return 0
		;;
	esac
	say "staticcheck: installing $staticcheck_version"
	if ! GOBIN=${staticcheck%/*} GOFLAGS= go install "honnef.co/go/tools/cmd/staticcheck@$staticcheck_version"; then
		warn "staticcheck $staticcheck_version could not be installed"
		return 1
	fi
}

if ! have go; then
	warn "no go in PATH: install Go from https://go.dev/dl/"
	exit 1
fi
status=0
install_packages || status=1
install_npm_packages || status=1
install_staticcheck || status=1
scripts/jaeger.sh || status=1
exit "$status"
