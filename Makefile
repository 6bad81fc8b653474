# Each target sets up what it needs: a virtual environment in .venv from the pinned versions in
# constraints.txt, and for e2e Debian's qemu and mmdebstrap.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INPUTS := pyproject.toml constraints.txt packaging/setup-venv
FUZZ_SECONDS ?= 20
FAULT_LIVES ?= 500
NRI_SOCKET ?= /var/run/nri/nri.sock

.PHONY: run test e2e conformance faults bench fuzz lint generate clean

# On a host with NRI: join its runtime. Elsewhere: the same plugin on a simulated machine.
run: $(VENV)/.run
	@if [ -S $(NRI_SOCKET) ]; then \
	  echo "NRI socket $(NRI_SOCKET) found: joining the host's runtime (end with Ctrl-C)"; \
	  exec $(BIN)/nri-numamem run --socket $(NRI_SOCKET); \
	else \
	  exec $(BIN)/nri-numamem demo; \
	fi

test: $(VENV)/.dev
	$(BIN)/pytest

e2e: $(VENV)/.dev
	tests/e2e/install-tools
	$(BIN)/pytest tests/e2e -p no:randomly

# Against NRI's own Go runtime side in five versions, several at a time; ends with a table of
# scenarios.
conformance: $(VENV)/.dev
	tests/conformance/install-tools
	$(BIN)/python tests/conformance/run.py

# Random lives of a node in which something breaks, some ten minutes; make faults SEED=1234 plays
# one of them again.
faults: $(VENV)/.dev
	tests/conformance/install-tools
	$(BIN)/python -m tests.faults.run --lives $(FAULT_LIVES) $(if $(SEED),--seed $(SEED))

# Beside plugins in Go on NRI's own Go runtime side, in seven minutes; see docs/benchmark.md.
# BENCH takes options: make bench BENCH=--quick
bench: $(VENV)/.dev
	tests/conformance/install-tools
	$(BIN)/python -m tests.bench.run $(BENCH)

# Each target for FUZZ_SECONDS, as many at a time as there are processors; inputs that fail are kept
# in build/fuzz. For Python 3.11 to 3.13.
fuzz: $(VENV)/.fuzz
	$(BIN)/python tests/fuzz/run.py --seconds $(FUZZ_SECONDS)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python api/generate.py --check

generate: $(VENV)/.dev
	$(BIN)/python api/generate.py

clean:
	rm -rf $(VENV) build dist *.egg-info

$(VENV)/.run: $(INPUTS)
	@packaging/setup-venv $(PYTHON) $(VENV)
	@touch $@

$(VENV)/.dev: $(INPUTS)
	@packaging/setup-venv $(PYTHON) $(VENV) dev
	@touch $@ $(VENV)/.run

$(VENV)/.fuzz: $(INPUTS)
	@packaging/setup-venv $(PYTHON) $(VENV) fuzz
	@touch $@ $(VENV)/.run
