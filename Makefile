# Thin over cargo: what a newcomer, a developer and CI run. Each command sets up a new machine by itself.

export PATH := $(HOME)/.cargo/bin:$(PATH)
# The compiler keeps its memory in huge pages: a build takes a third as long where pages are slow (decision 0233).
export MALLOC_CONF ?= thp:always
TARGET := $(or $(CARGO_TARGET_DIR),target)
RUNS ?= 3
MINUTES ?= 0
SEED ?= 1
REPLICAS ?= 3
BENCH ?=

.PHONY: help demo test check deployable advisories sbom release bench campaign recheck mutants mutants-check simulate calendar calibration upgrade \
	stubs python python-test docs api-image setup setup-test setup-check

help:
	@echo 'make demo       ten tasks in five orders on a private Postgres (SCALE=1: real speed)'
	@echo 'make test       every test; needs nothing running'
	@echo 'make check      format, lints, docs, layers and sizes, licences and sources of libraries, manifests, proto files'
	@echo 'make deployable whether an overlay of yours may be deployed: OVERLAY=folder'
	@echo 'make advisories what is known of the libraries; asks the database of advisories'
	@echo 'make sbom       what the program consists of (CycloneDX), into target/sbom'
	@echo 'make release    the program as it is to be shipped, by a profile of its work, into target/shipped (half an hour)'
	@echo 'make bench      all figures beside their baselines, into benches/RESULTS.md (RUNS=3 BENCH=throughput,unary RALLYPOINT_BIN=file)'
	@echo 'make campaign   real faults on real servers: MINUTES=n SEED=s REPLICAS=r (FAULTS=Kill,Pause: some kinds)'
	@echo 'make recheck    a recorded campaign, judged once more: HISTORY=target/tmp/campaign-1/history.jsonl'
	@echo 'make upgrade    this version and that of FROM=commit side by side, forth and back: MINUTES=n SEED=s'
	@echo 'make mutants    bugs made on purpose, each of which the simulator or the campaign must notice (MUTANTS="name name": some)'
	@echo 'make mutants-check  only whether each of them still compiles; nothing is run'
	@echo 'make stubs      of the API for Go, Java, Python and TypeScript, into target/stubs; nothing may warn'
	@echo 'make python     the Python package, into clients/python/dist'
	@echo 'make python-test  its lints, types and tests, and the commands of docs/, on a real server (RALLYPOINT_BIN=file, else a debug build)'
	@echo 'make docs       the documentation as a site, into target/site; a broken link fails'
	@echo 'make api-image  at a release: what callers may rely on from now on (docs/decisions/0125)'
	@echo 'make calendar   due times of 30 zones in 5 years, beside an expansion in Python minute by minute'
	@echo 'make simulate   crash schedules: SCHEDULES=n SEED=s'
	@echo 'make calibration  forecasts of 200 workloads, each run to its end'

demo: setup
	@cargo build --bin rallypoint
	@$(TARGET)/debug/rallypoint demo

# Most tests wait for servers they have started, so more of them run at a time than there are processors.
test: setup-test
	@RUST_TEST_THREADS=$${RUST_TEST_THREADS:-4} cargo test --workspace

check: setup-check
	@cargo fmt --all --check
	@cargo clippy --workspace --all-targets -- -D warnings
	@RUSTDOCFLAGS=-Dwarnings cargo doc --workspace --no-deps --quiet
	@cargo test --quiet --test it tidy
	@.ci/manifests $(TARGET)
	@cargo fetch --locked --quiet
	@.ci/deny --offline --locked --log-level error check licenses bans sources
	@.ci/buf format --diff --exit-code
	@.ci/buf lint
	@.ci/buf breaking --against proto/v1.binpb

deployable: setup-check
	$(if $(OVERLAY),,$(error name the overlay: make deployable OVERLAY=folder))
	@cargo build --quiet --bin rallypoint
	@.ci/deployable $(OVERLAY) $(TARGET)/debug/rallypoint

advisories: setup
	@.ci/deny check advisories

sbom: setup
	@.ci/sbom $(TARGET)/sbom

release: setup
	@.ci/release $(TARGET)

bench: setup
	@cargo bench --bench rallypoint -- all --runs $(RUNS) $(if $(BENCH),--only $(BENCH))

campaign: setup-test
	@MINUTES=$(MINUTES) SEED=$(SEED) REPLICAS=$(REPLICAS) FAULTS=$(FAULTS) \
		cargo test --release --test campaign every_promise -- --nocapture

recheck: setup
	$(if $(HISTORY),,$(error name the recorded run: make recheck HISTORY=target/tmp/campaign-1/history.jsonl))
	@HISTORY=$(abspath $(HISTORY)) cargo test --test campaign recorded -- --ignored --nocapture

mutants: setup-test
	@tests/mutants/run $(MUTANTS)

mutants-check: setup
	@tests/mutants/run --check $(MUTANTS)

upgrade: setup-test
	@MINUTES=$(MINUTES) SEED=$(SEED) REPLICAS=$(REPLICAS) tests/upgrade/run '$(FROM)'

simulate: setup
	@cargo test --release --test sim simulate -- --nocapture

calibration: setup
	@cargo test --release --lib forecast::tests::calibration -- --ignored --nocapture

calendar: setup-test
	@cargo test --release --test it calendar -- --ignored --nocapture

stubs:
	@.ci/stubs $(TARGET)/stubs

python:
	@.ci/python build

python-test: setup-test
	$(if $(RALLYPOINT_BIN),,@cargo build --quiet --bin rallypoint)
	@RALLYPOINT_BIN=$(or $(RALLYPOINT_BIN),$(abspath $(TARGET)/debug/rallypoint)) .ci/python test

docs:
	@.ci/docs $(TARGET)/site

api-image:
	@.ci/buf build --exclude-source-info -o proto/v1.binpb

setup:
	@.ci/setup

setup-test:
	@.ci/setup test

setup-check:
	@.ci/setup check
