# Each target sets up what it needs: a virtual environment in .venv from the pinned versions in
# constraints.txt, and for e2e Debian's qemu and mmdebstrap.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INPUTS := pyproject.toml nri_numamem/version.py constraints.txt packaging/setup-venv
FUZZ_SECONDS ?= 20
FUZZ_SEED ?= 0
FAULT_LIVES ?= 500
LIVES ?= 2000
NRI_SOCKET ?= /var/run/nri/nri.sock
# A room is a folder of the package, and its tests are in the folder of the same name.
ROOMS := $(notdir $(patsubst %/,%,$(dir $(wildcard nri_numamem/*/__init__.py))))
ROOM_TESTS := $(addprefix tests/,$(ROOMS))
# The tests of a file share a processor, and its fixtures.
PARALLEL := --numprocesses=auto --dist=loadfile
OTHER_TESTS := $(filter-out $(ROOM_TESTS) tests/e2e tests/cluster tests/features tests/conformance, \
  $(sort $(patsubst %/,%,$(dir $(wildcard tests/*/test_*.py)))))

.PHONY: run test test-unit test-other coverage e2e e2e-cluster e2e-features conformance faults lives bench \
  fuzz lint generate pictures cli-files dist deb rpm image wheels manifests release kubelet-answers clean

# On a host with NRI: join its runtime. Elsewhere: the same plugin on a simulated machine.
run: $(VENV)/.run
	@if [ -S $(NRI_SOCKET) ]; then \
	  echo "NRI socket $(NRI_SOCKET) found: joining the host's runtime (end with Ctrl-C)"; \
	  exec $(BIN)/nri-numamem run --socket $(NRI_SOCKET); \
	else \
	  exec $(BIN)/python -m tests.laboratory.demo; \
	fi

# All tests but e2e, e2e-cluster, e2e-features and conformance, on all processors.
test: $(VENV)/.dev
	@echo "The tests take about 6 min on two idle processors. They build nothing but these tools:"
	tests/packaging/install-tools
	$(BIN)/pytest $(PARALLEL)

# What to run while working: without tests that start processes or compare with brute force, in 60 s
# on two processors; it prints what it took. ROOM takes rooms: make test-unit ROOM="numa engine"
test-unit: $(VENV)/.dev
	$(BIN)/python -m tests.room_coverage --unit $(ROOM)

# The tests of each room, and whether they cover the room, branches included; ends with a table.
# COVERAGE takes rooms: make coverage COVERAGE="numa engine"
coverage: $(VENV)/.dev
	$(BIN)/python -m tests.room_coverage $(COVERAGE)

# The tests that coverage does not run.
test-other: $(VENV)/.dev
	tests/packaging/install-tools
	$(BIN)/pytest $(PARALLEL) $(OTHER_TESTS)

# The first line of this target and of the next two: what will be built, what is cached, how long.
e2e: $(VENV)/.dev
	$(BIN)/python -m tests.machines.plan tests.e2e.machine
	tests/machines/install-tools
	tests/conformance/install-tools
	$(BIN)/pytest tests/e2e -p no:randomly --tb=short

# A real kubelet with containerd and the plugin on such a machine. Kubernetes' programs are built from
# Go modules and kept in the user's cache: the first builds take long. See tests/cluster/README.md.
e2e-cluster: $(VENV)/.dev
	$(BIN)/python -m tests.machines.plan tests.cluster.machine tests.cluster.cri.machine
	tests/machines/install-tools
	tests/cluster/install-tools
	tests/packaging/install-kubernetes-tools
	$(BIN)/python -m tests.cluster.kubernetes.programs \
	  kubelet kube-apiserver kube-controller-manager kube-scheduler topology-scheduler crio nfd-topology-updater
	$(BIN)/pytest tests/cluster -p no:randomly --tb=short

# Features that are off by default, with the newest containerd and runc on such a machine, which are
# built from Go modules. See tests/features/README.md.
e2e-features: $(VENV)/.dev
	$(BIN)/python -m tests.machines.plan tests.features.machine
	tests/machines/install-tools
	tests/conformance/install-tools
	tests/cluster/cri/install-tools
	$(BIN)/python -m tests.cluster.kubernetes.programs containerd containerd-shim-runc-v2 runc
	$(BIN)/pytest tests/features -p no:randomly --tb=short

# Against NRI's own Go runtime side in six versions, several at a time; ends with a table of
# scenarios.
conformance: $(VENV)/.dev
	tests/conformance/install-tools
	$(BIN)/python tests/conformance/run.py

# Random lives of a node on a virtual clock, in one process each: 2,000 take less than two minutes;
# make lives SEED=17 repeats one life exactly, timing included.
lives: $(VENV)/.dev
	$(BIN)/python -m tests.lives.run --lives $(LIVES) $(if $(SEED),--seed $(SEED))
	$(if $(SEED),,$(BIN)/python -m tests.property.claim_life $(LIVES))

# Random lives of a node with faults: 500 lives take some ten minutes, FAULT_LIVES=60 one or two;
# make faults SEED=1234 repeats one life.
faults: $(VENV)/.dev
	tests/conformance/install-tools
	$(BIN)/python -m tests.faults.run --lives $(FAULT_LIVES) $(if $(SEED),--seed $(SEED))

# Measures the plugin and two plugins in Go on NRI's own Go runtime side, in eleven minutes; see
# docs/benchmark.md. BENCH takes options: make bench BENCH=--quick ends in 90 seconds.
bench: $(VENV)/.dev
	tests/conformance/install-tools
	$(BIN)/python -m tests.bench.run $(BENCH)

# Each target for FUZZ_SECONDS, as many at a time as there are processors; inputs that fail are kept
# in build/fuzz; FUZZ_SEED=0 takes other inputs in each run. For Python 3.11 to 3.13.
fuzz: $(VENV)/.fuzz
	$(BIN)/python tests/fuzz/run.py --seconds $(FUZZ_SECONDS) --seed $(FUZZ_SEED)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python api/generate.py --check
	$(BIN)/python docs/generate.py --check
	tests/packaging/lint-workflows

generate: $(VENV)/.dev
	$(BIN)/python api/generate.py
	$(BIN)/python docs/generate.py

# The pictures of the documents, in docs/pictures, from what the commands print on simulated machines.
pictures: $(VENV)/.dev
	$(BIN)/python -m tests.pictures

# The man page and the shell completions, in build/cli.
cli-files: $(VENV)/.dev
	$(BIN)/python packaging/write_cli_files.py build/cli

# The single executable file, in dist; as root, on Debian. The first time it builds CPython and
# OpenSSL, which takes long; DIST=--plain is an interpreter without PGO, in minutes. See
# packaging/single_file/README.md.
dist: $(VENV)/.run
	packaging/single_file/install-tools
	tests/conformance/install-tools
	PYTHONPATH=packaging $(BIN)/python -m single_file --twin build/single-file-twin $(DIST)

# The Debian package of the file that make dist built, in dist. See packaging/deb/README.md.
deb: $(VENV)/.dev
	tests/conformance/install-tools
	PYTHONPATH=packaging $(BIN)/python packaging/deb/build.py

# The RPM package of that file, in dist; needs rpmbuild. See packaging/rpm/README.md.
rpm: $(VENV)/.dev
	tests/conformance/install-tools
	PYTHONPATH=packaging $(BIN)/python packaging/rpm/build.py

# The container image of that file, as an archive in dist. See packaging/image/README.md.
image: $(VENV)/.dev
	packaging/single_file/install-tools
	PYTHONPATH=packaging $(BIN)/python -m image $(IMAGE)

# Source distribution, wheel and wheelhouse (the wheels of all dependencies), in dist.
wheels: $(VENV)/.dev
	PYTHONPATH=packaging $(BIN)/python -m release wheels

# The Helm chart and the kustomize overlays as archives, in dist.
manifests: $(VENV)/.dev
	PYTHONPATH=packaging $(BIN)/python -m release manifests

# All artefacts in dist, each with an SBOM, and SHA256SUMS. See docs/release.md;
# RELEASE=--unreleased tries it on any commit.
release: $(VENV)/.dev
	PYTHONPATH=packaging $(BIN)/python -m release release $(RELEASE)

# Records what the kubelet's own managers answer to the lives of tests/kubelet_managers: builds a
# program with the module k8s.io/kubernetes, for which it needs Go 1.26 or newer; some twelve minutes.
kubelet-answers: $(VENV)/.dev
	tests/conformance/install-tools
	$(BIN)/python -m tests.kubelet_managers.answers
	$(BIN)/python -m tests.kubelet_managers.ended_containers --record
	$(BIN)/python -m tests.kubelet_managers.static_cpus
	$(BIN)/python -m tests.scheduler_allocator.recording

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
