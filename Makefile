# SPDX-License-Identifier: Apache-2.0
# One command each; `make` alone lists them. None requires another one first.
# Targets that lack a package install it through apt when run as root.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

ifeq ($(HOME),) # for Go's caches
export HOME := $(shell getent passwd $$(id -u) | cut -d: -f6)
endif
export PATH := $(PATH):/usr/sbin:/sbin

# The shell finds Go when a line uses it: make expands a whole recipe
# before its first line, which may be the one that installs Go. An older Go
# fetches the toolchain of go.mod itself.
GO        = GOTOOLCHAIN=$(GOTOOLCHAIN_SET) "$$(tools/go.sh)"
GOTOOLCHAIN_SET ?= auto
VERSION   = $(shell sed -n 's/^\#\# \[\([0-9][^]]*\)\].*/\1/p' CHANGELOG.md | head -n 1)
COMMIT    = $(shell git rev-parse --short=12 HEAD 2>/dev/null)
LDFLAGS   = -s -w -X tidegate/internal/version.Version=$(VERSION)$(if $(COMMIT),+g$(COMMIT))
FUZZTIME ?= 60s
# The same in seconds: 90s, 5m and 1h are understood, as by `go test`.
FUZZ_SECONDS = $(shell echo $$(($(subst h,*3600,$(subst m,*60,$(subst s,,$(FUZZTIME)))))))
FRAMES ?= 17000000 # odd frames to each of six kinds of gate: 10^8 in all
PLANES_WORLDS ?= 20000 # random configurations of the proxy, about 100 frames each, on every plane
SERVER_WORLDS ?= 20000 # random configurations of the translating server, about 370 frames each, on its programs and on core/
SOAKTIME ?= 10m

.PHONY: book screenshots docs format help demo test test-p4 test-web test-unit test-kernel bench fuzz prove lint generate build dpdk soak packages image test-packages clean

help: ## list the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1|/p' Makefile | while IFS='|' read -r t d; do printf 'make %-10s  %s\n' "$$t" "$$d"; done

demo: ## find where each defence stops serving a flooded web server (root; writes demo/)
	@tools/deps.sh demo
	@$(MAKE) build
	bin/tidegate-lab demo

test: ## everything that CI runs (root)
	@if tools/go.sh >/dev/null 2>&1; then CGO_ENABLED=0 $(GO) vet -trimpath -buildvcs=false ./... >/dev/null 2>&1 & fi; tools/deps.sh test && wait # compiles while packages come
	@$(MAKE) build
	@test/run

test-p4: ## the P4 programs on simple_switch (root; needs P4C, SIMPLE_SWITCH, P4C_UBPF, P4C_TOFINO and BFAS, see docs/p4.md)
	@tools/deps.sh test
	TIDEGATE_P4=require $(GO) test ./test/p4 -count=1 -v -timeout 30m

test-web: ## the page of `tidegate web`, and the site's calculator and search, in headless Chromium (root; writes build/web/)
	@tools/deps.sh web
	@mkdir -p build/web
	TIDEGATE_CHROMIUM=chromium TIDEGATE_SCREENSHOTS=$(CURDIR)/build/web $(GO) test ./test/host -count=1 -run 'TestWebInBrowser$$' -v
	@tools/site.sh
	TIDEGATE_CHROMIUM=chromium $(GO) test ./test/docs -count=1 -run 'TestCapacityCalculator$$|TestSearchFromAFolder$$' -v

screenshots: ## the pictures of docs/watching.md, anew (root; writes docs/images/)
	@tools/deps.sh web
	@mkdir -p docs/images
	TIDEGATE_CHROMIUM=chromium TIDEGATE_DOCS_IMAGES=$(CURDIR)/docs/images $(GO) test ./test/host -count=1 -run 'TestScreenshots$$'

test-unit: ## the tests that need no root
	@tools/deps.sh build
	@test/run unit

bench: ## cost per SYN and SYNs absorbed, as ratios, in one run (root)
	@tools/deps.sh bench
	@$(MAKE) build
	bin/tidegate-lab bench

book: ## every table and figure of the five papers beside our number, into docs/results (root; hours, resumable)
	@tools/deps.sh bench
	@$(MAKE) build
	bin/tidegate-lab book --out docs/results

fuzz: ## fuzz the parsers, FUZZTIME each (default 60s), and send FRAMES odd frames to each kind of gate and to a machine without one (root)
	@tools/deps.sh fuzz
	$(GO) test ./internal/config -run '^$$' -fuzz FuzzParse -fuzztime $(FUZZTIME)
	$(GO) test ./internal/ifp -run '^$$' -fuzz FuzzMessages -fuzztime $(FUZZTIME)
	$(GO) test ./internal/role/filterman -run '^$$' -fuzz FuzzExchange -fuzztime $(FUZZTIME) -fuzzminimizetime 20x
	$(GO) test ./internal/role/borderman -run '^$$' -fuzz FuzzBorder -fuzztime $(FUZZTIME) -fuzzminimizetime 20x
	$(GO) test ./internal/role/patrol -run '^$$' -fuzz FuzzControl -fuzztime $(FUZZTIME) -fuzzminimizetime 20x
	$(GO) test ./internal/binding -run '^$$' -fuzz FuzzParse -fuzztime $(FUZZTIME)
	$(GO) test ./internal/binding/flood -run '^$$' -fuzz FuzzMessage -fuzztime $(FUZZTIME)
	$(GO) test ./internal/binding/flood -run '^$$' -fuzz FuzzReceive -fuzztime $(FUZZTIME) -fuzzminimizetime 20x
	@if [ -e core/Makefile ]; then $(MAKE) -C core fuzz FUZZ_SECONDS=$(FUZZ_SECONDS); fi
	TIDEGATE_FRAMES=$(FRAMES) $(GO) test ./test/verdicts -count=1 -run TestVerdicts -v -timeout 4h
	TIDEGATE_PLANES_WORLDS=$(PLANES_WORLDS) TIDEGATE_SERVER_WORLDS=$(SERVER_WORLDS) $(GO) test ./test/vectors -count=1 -run 'Test(Planes|ServerAndCore)$$' -v -timeout 4h
	$(MAKE) -C lwip check-all
	$(MAKE) -C lwip fuzz FUZZ_SECONDS=$(FUZZ_SECONDS)
	$(MAKE) -C dpdk fuzz FUZZ_SECONDS=$(FUZZ_SECONDS)

prove: ## prove the core free of undefined behaviour, and its laws on all values (Frama-C; minutes)
	@tools/deps.sh prove
	@tools/prove.sh

format: ## gofmt and clang-format over the whole tree
	@tools/deps.sh lint
	"$$(dirname "$$(tools/go.sh)")/gofmt" -w $$(git ls-files '*.go')
	@tools/format.sh

lint: ## formatting, vet, golangci-lint and shellcheck
	@tools/deps.sh lint
	@test/run lint
	@tools/lint.sh

generate: ## regenerate Go code, BPF objects and documents
	@tools/deps.sh generate
	$(GO) generate ./...

build: ## bin/tidegate, one static file with the BPF objects inside, bin/tidegate-bgp, and bin/tidegate-lab, which floods and measures
	@tools/deps.sh build
	@mkdir -p bin
	CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -ldflags '$(LDFLAGS)' -o bin/ ./cmd/tidegate ./cmd/tidegate-bgp ./cmd/tidegate-lab

dpdk: ## bin/tidegate-dpdk, the proxy's packet path on DPDK, and its benchmark
	@tools/deps.sh dpdk
	@$(MAKE) -C dpdk

soak: ## 200,000 requests of every kind, a long flood with restarts, 1 GiB each way through the proxy, every role in generic XDP mode, a keep-alive after an hour (root; SOAKTIME, default 10m; IDLE, default 1h)
	@tools/deps.sh soak
	@$(MAKE) build
	@SOAKTIME=$(SOAKTIME) test/soak/run

test-kernel: ## boot Debian's oldest and newest kernels in an emulator, run the lab there (root; minutes)
	@tools/deps.sh kernel
	@$(MAKE) build
	@test/kernel/run
	@ARCH=arm64 test/kernel/run 6.12

packages: ## build/tidegate_*.deb and the .rpm
	@tools/deps.sh build
	@tools/packages.sh $(VERSION)

image: ## build/tidegate_*.oci.tar, an OCI image from scratch (podman)
	@tools/deps.sh build image
	@tools/image.sh $(VERSION)

test-packages: ## install, upgrade and purge the packages in a clean Debian; lintian; the units' sandbox; run the image (root; minutes)
	@tools/deps.sh build lab packages image
	@test/packages/run

docs: ## the site, from docs/ into build/site (MkDocs from PyPI)
	@tools/deps.sh docs
	@tools/site.sh

clean: ## remove what was built
	rm -rf bin build demo connect-time book
