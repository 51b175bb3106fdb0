# The commands of this repository. make help lists them.

FUZZTIME ?= 1m
SOAK     ?= 1m
COST     ?= 1h
MODEL    ?= 1h
FAULTS   ?= 1h
RACES    ?= 20
BENCH    ?= .
COMPARE  ?=
BASE     ?=
REGRESS_ROUNDS ?= 0

.DEFAULT_GOAL := help
.PHONY: help build test test-all newcomer tools lint conformance bench compare regress fuzz races mutants soak attack cost overhead replicas faults release clean

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' Makefile

build: ## build the programs into bin/
	go build -trimpath -o bin/ ./cmd/...

test: ## test what tells whether the tree can be trusted, and say what was left out
	@scripts/test.sh

test-all: ## run all tests that this machine can run, with the race detector; say what was skipped
	@scripts/test-all.sh

newcomer: ## run the two commands of the README in a clean clone with empty caches
	@scripts/newcomer.sh

tools: ## install what the skipped tests and lint need
	@scripts/tools.sh

lint: ## gofmt, go vet and staticcheck
	@scripts/lint.sh

conformance: ## run the official conformance suite and print its table
	@cd e2e && VITRINE_REQUIRE=all go test -count=1 -v -run '^TestConformance$$' ./conformance

bench: ## run the benchmarks (BENCH=regexp)
	go test -run '^$$' -bench '$(BENCH)' -benchmem ./...
	@if [ -f bench/go.mod ]; then cd bench && go test -run '^$$' -bench '$(BENCH)' -benchmem ./...; fi

compare: ## compare with the peers, side by side (COMPARE='-only /call/', '-h' lists flags)
	@cd bench && go run . $(COMPARE)

regress: ## compare the cost of calls with a commit, and fail if it has grown (BASE=commit, REGRESS_ROUNDS=9)
	@scripts/regress.sh '$(BASE)' '$(REGRESS_ROUNDS)'

fuzz: ## run each fuzz target (FUZZTIME=1m)
	@scripts/fuzz.sh '$(FUZZTIME)'

# A process for each round: the race detector keeps some memory of every synctest bubble
# that ran a timer, and there are thousands in a round.
races: ## run the tests of the session core again and again, on 1, 2 and 4 cores (RACES=20)
	@go test -race -c -o .cache/session.test ./internal/session
	@cd internal/session && for round in $$(seq $(RACES)); do \
		../../.cache/session.test -schedules 1000 -test.cpu=1,2,4 -test.timeout=30m >../../.cache/races.log 2>&1 || { cat ../../.cache/races.log; exit 1; }; \
		echo "round $$round of $(RACES) passed"; done

mutants: ## show that the races of the session core, and the model of replicas, notice the bugs that they are about
	@VITRINE_MUTANTS=all go test -count=1 -v -run '^TestMutants$$' ./internal/session
	@VITRINE_MUTANTS=all go test -count=1 -v -timeout 60m -run '^TestReplicaMutants$$' ./server

soak: ## let hundreds of clients loose on a server (SOAK=1m)
	cd e2e && GOEXPERIMENT=goroutineleakprofile go test -count=1 -v -timeout 0 ./soak -soak '$(SOAK)'

attack: ## attack real servers, with the floods at their full length
	cd e2e && go test -count=1 -v -timeout 30m ./attack -long

cost: ## search for requests that cost more than their size allows (COST=1h)
	cd e2e && go test -count=1 -v -timeout 0 ./cost -search '$(COST)'

overhead: ## measure what replicas cost a plain call: while their store is frozen, and in sessions with sealed ids
	cd e2e && go test -count=1 -v -timeout 0 . -run 'TestPlainCallsNeedNoStore$$' -frozen 1.2 -frozen.rounds 301
	go test -count=1 -v -timeout 0 ./server -run 'TestSealedSessionAllocations$$' -sealed.rounds 101

replicas: ## let replicas that lose each other and their store do random work (MODEL=1h)
	go test -count=1 -v -timeout 0 ./server -run 'TestReplicasModel$$' -replicas '$(MODEL)' -replicas.first "$$(date +%s)"

faults: ## let three servers behind nginx be killed, stopped and replaced, and lose their store, while clients work (FAULTS=1h)
	cd e2e && go test -count=1 -v -timeout 0 -parallel 3 . -run 'TestReplicasThroughFaults$$' -faults '$(FAULTS)'

release: ## make a release in dist/: programs, lists of what is in them, checks, pinned images
	@scripts/release.sh

clean: ## remove what the commands above have built
	rm -rf bin dist .cache
