# The face of the house. Everything with logic is in xtask.

.DEFAULT_GOAL := help
.PHONY: help demo test bench tools deny

help: ## list the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-8s %s\n", $$1, $$2 }'

demo: tools ## show what Palisade does, on this machine
	@cargo build --package palisade
	@cargo run --quiet --package palisade -- demo

test: tools deny ## everything that CI checks
	@cargo xtask ci

bench: tools ## measure, as ratios to a baseline
	@cargo xtask bench parse
	@if [ "$$(id -u)" = 0 ]; then cargo xtask bench kernel; else echo "cargo xtask bench kernel needs root; not run" >&2; fi

tools:
	@command -v cargo >/dev/null 2>&1 || { \
		echo "cargo is missing; install it from https://rustup.rs and run make again" >&2; exit 1; }

# Licences, sources and bans of dependencies. Built once, from crates.io.
deny: tools
	@cargo deny --version >/dev/null 2>&1 || cargo install --quiet --locked --version 0.20.2 cargo-deny || \
		echo "cargo-deny could not be installed; licences of dependencies are not checked"
