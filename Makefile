# Tasks of moldau; `make` lists them.
SHELL := /bin/bash
GO    ?= go
SEEDS ?= 200
FUZZTIME ?= 10s
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

.PHONY: help build test lint race sim mutants fuzz e2e interop bench bench-kafka fmt ci clean

help: ## list the tasks
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## / — /'

build: ## build bin/moldau
	$(GO) build -o bin/moldau ./cmd/moldau

test: ## run all tests that need nothing but Go
	$(GO) test ./...

lint: ## formatting, vet, staticcheck, the rules of internal/archtest
	@bad=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$bad" ] || { echo "gofmt would change:"; echo "$$bad"; exit 1; }
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...
	$(GO) test ./internal/archtest

race: ## run all tests under the race detector
	$(GO) test -race ./...

fmt: ## format the sources
	gofmt -w $$(git ls-files '*.go')

clean: ## remove what was built
	rm -rf bin
