# The face of the house. Everything with logic is in xtask.

NEXTEST := 0.9.143
CARGO_BIN := $(or $(CARGO_HOME),$(HOME)/.cargo)/bin

.DEFAULT_GOAL := help
.PHONY: help demo test bench tools nextest

help: ## list the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-8s %s\n", $$1, $$2 }'

demo: tools ## show what Palisade does, on this machine
	@cargo build --release --package palisade
	@cargo run --release --quiet --package palisade -- demo

test: tools nextest ## everything that CI checks
	@cargo xtask ci

bench: tools ## measure, as ratios to a baseline
	@cargo xtask bench parse

tools:
	@command -v cargo >/dev/null 2>&1 || { \
		echo "cargo is missing; install it from https://rustup.rs and run make again" >&2; exit 1; }

# A faster test runner. Without it the tests run by `cargo test`.
nextest: tools
	@cargo nextest --version >/dev/null 2>&1 || { \
		case "$$(uname -sm)" in \
			"Linux x86_64") platform=linux ;; \
			"Linux aarch64") platform=linux-arm ;; \
			Darwin*) platform=mac ;; \
			*) platform= ;; \
		esac; \
		echo "cargo-nextest is missing; fetching $(NEXTEST)"; \
		test -n "$$platform" && mkdir -p "$(CARGO_BIN)" \
			&& curl --proto '=https' --tlsv1.2 -LsSf --max-time 120 "https://get.nexte.st/$(NEXTEST)/$$platform" \
			| tar -xzf - -C "$(CARGO_BIN)" 2>/dev/null; \
	} || echo "cargo-nextest could not be fetched; the tests run by cargo test"
