# Everything a developer needs is behind these targets; each does its own set-up first.

LAB := $(CURDIR)/lab
SLUICE_LAB_CACHE ?= $(LAB)/cache
# Absolute: tests run in folders of their own.
export override SLUICE_LAB_CACHE := $(abspath $(SLUICE_LAB_CACHE))
CARGO ?= cargo

# Test programs run as root, for mounts, ownership and devices; building stays with the user.
ROOT := $(if $(filter 0,$(shell id -u)),,sudo -E env PATH="$(PATH)")
HOST := $(shell uname -m | tr a-z A-Z)_UNKNOWN_LINUX_GNU
AS_ROOT := $(if $(ROOT),CARGO_TARGET_$(HOST)_RUNNER='$(ROOT)')

PREFIX ?= /usr/local
# Where monitors look for virtiofsd and for what describes it, whatever the prefix.
LIBEXECDIR ?= /usr/libexec
# Where mount(8) looks for its helpers.
SBINDIR ?= /sbin
MONITORSDIR ?= /usr/share/qemu/vhost-user
PLACES = DESTDIR="$(DESTDIR)" PREFIX="$(PREFIX)" LIBEXECDIR="$(LIBEXECDIR)" SBINDIR="$(SBINDIR)" MONITORSDIR="$(MONITORSDIR)"

PROGRAM = $(or $(CARGO_TARGET_DIR),target)/release/sluice

.PHONY: help build run test check lab bench fuzz install uninstall toolchain clean clean-lab

help: ## This list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 12

build: ## The program, with optimisations
	$(CARGO) build --release --locked -p sluicefs

run: lab ## A Linux guest with a shared directory (DIR=path), or a tour when there is no terminal
	$(CARGO) build --release --locked -p sluicefs
	$(ROOT) $(LAB)/run $(PROGRAM) "$(DIR)"

test: check lab ## Every test, real guests included
	$(LAB)/check-guests
	$(AS_ROOT) $(CARGO) test --locked --workspace

check: lab toolchain ## Formatting, lints, scripts and the direction of imports
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	$(CARGO) xtask check-deps
	$(CARGO) metadata --locked --format-version 1 --manifest-path fuzz/Cargo.toml >/dev/null
	cd $(LAB) && shellcheck -x host-packages prepare boot check-guests programs run common.sh debian.sh
	shellcheck fuzz/run dist/install
	shellcheck -s dash -e SC1091 crates/sluicefs/src/sandbox/guest/init

bench: lab ## Measurements beside virtiofsd, diod and libfuse's examples, in guests too (BENCH=--help lists options)
	$(CARGO) build --release --locked -p sluicefs
	$(AS_ROOT) $(CARGO) run --release --locked -p sluice-lab --bin bench -- $(BENCH)

fuzz: ## Each fuzz target for a minute (SECONDS_EACH=60)
	fuzz/run

# Root may have no cargo: `make build && sudo make install`.
install: ## sluice, its manual pages and completions, and the names virtiofsd and mount.sluice (PREFIX=, SBINDIR=, LIBEXECDIR=, MONITORSDIR=, DESTDIR=)
	@if command -v "$(CARGO)" >/dev/null; then $(MAKE) --no-print-directory build; \
	elif [ ! -x "$(PROGRAM)" ]; then echo "nothing to install, and no cargo here: run 'make build' first" >&2; exit 1; fi
	$(PLACES) dist/install "$(PROGRAM)"

uninstall: ## Removes what install put there (with the same places)
	$(PLACES) dist/install --remove

lab: ## Guests and peers for the above, downloaded once into lab/cache
	@"$(LAB)/prepare"

toolchain:
	@$(CARGO) fmt --version >/dev/null 2>&1 || rustup component add rustfmt
	@$(CARGO) clippy --version >/dev/null 2>&1 || rustup component add clippy

clean: ## Removes what was built
	$(CARGO) clean

clean-lab: ## Removes the downloaded guests and peers
	rm -rf "$(SLUICE_LAB_CACHE)"
