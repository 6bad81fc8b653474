# Each target sets up what it needs: a virtual environment in .venv from the pinned versions in
# constraints.txt, and for e2e Debian's qemu and mmdebstrap.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INPUTS := pyproject.toml constraints.txt packaging/setup-venv
FUZZ_SECONDS ?= 20
NRI_SOCKET ?= /var/run/nri/nri.sock

.PHONY: run test e2e conformance bench fuzz lint generate clean

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

# Against NRI's own Go runtime side in five versions; ends with a table of scenarios.
conformance: $(VENV)/.dev
	tests/conformance/install-tools
	$(BIN)/pytest tests/conformance -q

# Times of placement on machines of 2 to 64 nodes.
bench: $(VENV)/.dev
	$(BIN)/python -m tests.bench.placement

# Each target for FUZZ_SECONDS; inputs that fail are kept in build/fuzz.
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
