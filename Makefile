# Tasks of moldau; `make` lists them.
SHELL := /bin/bash
GO    ?= go
SEEDS ?= 200
FUZZTIME ?= 10s
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

.PHONY: help build test lint race sim mutants fuzz e2e interop chaos bench bench-kafka fmt ci clean

help: ## list the tasks
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## / — /'

build: ## build bin/moldau
	$(GO) build -trimpath -ldflags="-s -w" -o bin/moldau ./cmd/moldau

test: ## run all tests that need nothing but Go
	$(GO) test ./...

lint: ## formatting, vet, staticcheck, the rules of internal/archtest
	@bad=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$bad" ] || { echo "gofmt would change:"; echo "$$bad"; exit 1; }
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...
	$(GO) test ./internal/archtest

race: ## run all tests under the race detector
	$(GO) test -race ./...

sim: ## simulate the quorum, then groups: SEEDS=n runs of each, or SEED=k SEEDS=1 to replay one
	$(GO) run ./internal/sim/cmd -seed $(or $(SEED),1) -seeds $(SEEDS) -twice
	$(GO) run ./internal/sim/groups/cmd -seed $(or $(SEED),1) -seeds $(SEEDS) -events 5000 -twice

mutants: ## show that planted bugs are caught
	bash internal/sim/mutants.sh

fuzz: ## run every fuzz target for FUZZTIME
	@for p in $$($(GO) list ./internal/...); do for f in $$($(GO) test -list '^Fuzz' $$p | grep ^Fuzz || true); do \
	  echo "$$p $$f"; $(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) $$p || exit 1; done; done

interop: build ## run Apache Kafka's tools and broker, other people's clients and franz-go's tests against moldau
	cd test/interop && MOLDAU=$(CURDIR)/bin/moldau $(GO) test -count=1 -timeout 40m ./...

chaos: build ## kill, pause, cut off and replace nodes of a cluster of real processes; KILLS=n
	cd test/chaos && MOLDAU=$(CURDIR)/bin/moldau KILLS=$(KILLS) $(GO) test -count=1 -timeout 40m -v ./...

bench: ## run the microbenchmarks of the hot paths, with allocations
	$(GO) test -run '^$$' -bench . -benchmem ./internal/batch ./internal/wire ./internal/network ./internal/seglog ./internal/producerstate

bench-kafka: build ## run Apache Kafka and moldau in turn on the same work and print ratios
	$(GO) run ./internal/bench/compare/cmd --moldau bin/moldau

ci: ## what .ci/run does
	bash .ci/run

fmt: ## format the sources
	gofmt -w $$(git ls-files '*.go')

clean: ## remove what was built
	rm -rf bin
