# The face of the house. Everything with logic is in xtask.

.DEFAULT_GOAL := help
.PHONY: help demo test bench tools

help: ## list the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-8s %s\n", $$1, $$2 }'

demo: tools ## show what Palisade does, on this machine
	@cargo build --package palisade
	@cargo run --quiet --package palisade -- demo

test: tools ## everything that CI checks
	@cargo xtask ci

bench: tools ## measure, as ratios to a baseline
	@cargo xtask bench parse
	@if [ "$$(id -u)" = 0 ]; then cargo xtask bench kernel; else echo "cargo xtask bench kernel needs root; not run" >&2; fi

tools:
	@command -v cargo >/dev/null 2>&1 || { \
		echo "cargo is missing; install it from https://rustup.rs and run make again" >&2; exit 1; }
