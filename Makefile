# What people and CI run, by the same names. `make` alone prints them.

SHELL := /bin/bash
PYTHON := .venv/bin/python
# Opening desks needs root; an ordinary user goes through sudo, and root leaves no bytecode in a user's checkout.
SUDO := $(if $(filter 0,$(shell id -u)),,sudo -E env PYTHONDONTWRITEBYTECODE=1)
APT := $(if $(filter 0,$(shell id -u)),,sudo) env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300

# Pytest compiles every test module in each of its workers unless it may keep what it compiled.
PYTEST := $(or $(SUDO),env PYTHONDONTWRITEBYTECODE=) $(PYTHON) -m pytest

.PHONY: help
help:  ## Print this.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

.PHONY: setup
setup: .venv/.installed compile  ## Make .venv, install what is missing on this machine, build the base image.
	@.venv/bin/hotdesk setup

.PHONY: images
images: .venv/.installed compile
	@.venv/bin/hotdesk setup --image base --image office --image desktop

.PHONY: gvisor
gvisor: .venv/.installed compile
	@.venv/bin/hotdesk setup --wall gvisor

.PHONY: microvm
microvm: .venv/.installed compile
	@HOTDESK_MICROVM_EMULATE=1 .venv/bin/hotdesk setup --wall microvm

.PHONY: e2b-images
e2b-images: images
	@.venv/bin/hotdesk setup --image code-interpreter-v1 --image e2b-desktop

.PHONY: check
check: .venv/.installed  ## Lint, types, import direction, names, words.
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	MYPYPATH=src:. .venv/bin/mypy --explicit-package-bases tests examples bench tools evals
	.venv/bin/lint-imports
	$(PYTHON) tools/conventions.py
	$(PYTHON) tools/glossary.py

.PHONY: test
test: e2b-images gvisor test-tools  ## Every test but the long ones; opens real desks. RETRY=1 tries what failed once more, alone.
	$(PYTEST) -m "not long" -n 3 --dist loadfile --no-loadscope-reorder --durations=15 $(if $(RETRY),|| { [ $$? -eq 1 ] && $(SUDO) $(PYTHON) tests/retry.py; })

.PHONY: test-quick
test-quick: setup  ## The unit tests but the slow ones, and the conformance tests of a desk.
	$(PYTEST) -m "not long and not slow" -n 2 --dist loadfile -q tests/unit tests/conformance/test_desk.py

# At most MINUTES (60); what passed on this commit is not run again, so it is called until nothing is left.
.PHONY: test-long
test-long: e2b-images gvisor microvm test-tools  ## Soaks, sweeps, many seeds, desks of every origin: an hour at a time. SHARD=2/4, MINUTES=n, SINCE=rev.
	@command -v systemctl >/dev/null || $(APT) install --yes --no-install-recommends systemd >/dev/null
	@command -v podman >/dev/null || $(APT) install --yes --no-install-recommends podman >/dev/null
	@command -v pebble >/dev/null || $(APT) install --yes --no-install-recommends pebble >/dev/null
	@$(MAKE) --no-print-directory manifests CHECK=1
	@command -v promtool >/dev/null || $(APT) install --yes --no-install-recommends prometheus >/dev/null
	$(PYTEST) -p tests.long_run -m long -n 2 --dist worksteal --record out/test-long.jsonl --results tests/long-results.csv --minutes $(or $(MINUTES),60) --shard $(or $(SHARD),1/1) --since "$(SINCE)"

.PHONY: test-tools
test-tools:
	@command -v npm >/dev/null || $(APT) install --yes --no-install-recommends npm >/dev/null
	@command -v chromium >/dev/null || $(APT) install --yes --no-install-recommends chromium >/dev/null
	@command -v sftp >/dev/null || $(APT) install --yes --no-install-recommends openssh-client >/dev/null
	@command -v rsync >/dev/null || $(APT) install --yes --no-install-recommends rsync >/dev/null

.PHONY: bench
bench: setup $(if $(PEERS),gvisor)  ## Measure hotdesk and what peers are here; PEERS=1 installs them first. Table, JSON and charts in out/bench.
ifdef PEERS
	$(APT) install --yes --no-install-recommends podman runc bubblewrap systemd-container btrfs-progs >/dev/null
	@rm -rf out/peers && mkdir -p out/peers  # unpacked, not installed: a package of nginx would start a server
	@cd out/peers && apt-get -qq download nginx 2>/dev/null && dpkg -x nginx_*.deb .
endif
	@mkdir -p out/bench
	$(SUDO) env $(if $(PEERS),NGINX_PROGRAM=$(CURDIR)/out/peers/usr/sbin/nginx) $(PYTHON) -m bench --out out/bench $(if $(PEERS),--peers) $(BENCH)

.PHONY: bench-check
bench-check:  ## The same with every peer; fails and names each promise that is broken or could not be measured.
	@$(MAKE) --no-print-directory bench PEERS=1 BENCH="--check $(BENCH)"

# SEED=n repeats a run, COUNT=n makes fewer invoices, AGAIN=1 audits them as they are now, RESUME=1 continues after a kill,
# BRAIN=hijacked puts a hostile worker at the desk, MODEL=anthropic:… lets a model decide, REPLAY=1 repeats a recorded model's decisions
# on the invoices it had (REPLAY=FILE: another recording than the first), WALL=gvisor puts its desks behind that wall.
.PHONY: demo
demo: images $(filter gvisor,$(WALL))  ## 500 invoices are audited against an ERP: a checked workbook in out/, its red rows compared with the truth.
	@$(SUDO) $(PYTHON) examples/audit/run.py --out out $(if $(SEED),--seed $(SEED)) $(if $(COUNT),--count $(COUNT)) \
	  $(if $(AGAIN),--again) $(if $(RESUME),--resume) $(if $(BRAIN),--brain $(BRAIN)) $(if $(MODEL),--model $(MODEL)) \
	  $(if $(REPLAY),--replay $(filter-out 1,$(REPLAY))) $(if $(WALL),--wall $(WALL))

.PHONY: swarm
swarm: images  ## 200 contracts are read, each at a desk of its own: a register in out/swarm, compared with the truth; then 20 with recorded model replies.
	@$(if $(REPLAY),,$(SUDO) $(PYTHON) examples/contracts/run.py --out out/swarm $(if $(COUNT),--count $(COUNT)) $(if $(SEED),--seed $(SEED)) \
	  $(if $(PILOT),--pilot $(PILOT)))
	@$(SUDO) $(PYTHON) examples/contracts/run.py --out out/swarm/recorded --replay $(filter-out 1,$(REPLAY))

.PHONY: serve-demo
serve-demo: images  ## The same from a browser: an ERP and `hotdesk serve`, with a key to sign in; COUNT=n, SEED=n, PORT=n.
	@$(SUDO) $(PYTHON) examples/audit/serve.py --out out/serve $(if $(SEED),--seed $(SEED)) $(if $(COUNT),--count $(COUNT)) \
	  $(if $(PORT),--port $(PORT))

.PHONY: demo-desk
demo-desk: images  ## One minute: a desk is used, misused and burnt.
	@$(SUDO) $(PYTHON) examples/demo-desk/demo.py

.PHONY: docs
docs: .venv/.docs  ## Build these pages as a static site into out/docs; a link that leads nowhere fails it.
	@$(PYTHON) tools/docs.py

.venv/.docs: .venv/.installed
	@uv=uv; uv --version >/dev/null 2>&1 || uv=.venv/bin/uv; $$uv pip install --quiet --python $(PYTHON) --group docs
	@touch $@

.PHONY: manifests
manifests: .venv/.cluster  ## Write the Helm chart from deploy/base; hold both against Kubernetes' schemas. CHECK=1 writes nothing.
	@$(PYTHON) tools/manifests.py $(if $(CHECK),--check)

.venv/.cluster: .venv/.installed
	@uv=uv; uv --version >/dev/null 2>&1 || uv=.venv/bin/uv; $$uv pip install --quiet --python $(PYTHON) --group cluster
	@touch $@

.PHONY: dist
dist: .venv/.installed compile  ## Build the wheel and the sdist of the last commit into dist/, twice: both must have the same bytes.
	@$(PYTHON) tools/dist.py

.PHONY: dist-check
dist-check: dist setup  ## Install that wheel on a bare Debian 13 in a namespace, and open a desk there in three commands.
	@$(SUDO) $(PYTHON) tools/dist_check.py

.PHONY: oci
oci: dist setup  ## Build the container images of server and agents, and of desks that are pods, into out/oci, as OCI layouts.
	@mkdir -p out/oci
	@$(SUDO) env PYTHONPATH=src:. $(PYTHON) tools/oci.py

# Kubernetes is built from Debian's sources on first use: ten minutes of processor time, kept in out/cluster/cache.
.PHONY: test-cluster
test-cluster: oci images .venv/.cluster  ## Run hotdesk on a real Kubernetes of two nodes, in namespaces of this machine; kills agent, server, kubelet and node.
	@$(SUDO) env PYTHONPATH=src:. $(PYTHON) -m tools.cluster

.PHONY: test-pods
test-pods: oci .venv/.cluster  ## Run desks as pods on that Kubernetes: an open network is refused; cold and ready pods, a deleted pod, a killed agent.
	@$(SUDO) env PYTHONPATH=src:. $(PYTHON) -m tools.cluster.pods

# MACHINE="debian-13 debian-12" names some, BUDGET=n begins none after n minutes; what passed with this wheel is not repeated.
.PHONY: test-hosts
test-hosts: dist setup lab-tools  ## Install that wheel on emulated machines of every supported kind, attack desks there; hours. MACHINE=…
	@$(SUDO) $(PYTHON) -m tools.hosts $(MACHINE) $(if $(BUDGET),--budget $(BUDGET)) $(HOSTS)

QEMU := $(if $(filter aarch64,$(shell uname -m)),qemu-system-arm,qemu-system-x86)
.PHONY: lab-tools
lab-tools:
	@command -v qemu-system-$(shell uname -m) >/dev/null || $(APT) install --yes --no-install-recommends $(QEMU) >/dev/null
	@command -v qemu-img >/dev/null || $(APT) install --yes --no-install-recommends qemu-utils >/dev/null
	@command -v mkfs.xfs >/dev/null || $(APT) install --yes --no-install-recommends xfsprogs >/dev/null

.PHONY: clean
clean:  ## Remove .venv and caches from this folder; images and packages of the machine stay.
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist packaging/share
	find src tests -name __pycache__ -prune -exec rm -rf {} +

# Start-up time matters, and writing bytecode may be switched off in the environment.
.PHONY: compile
compile: .venv/.installed
	@$(PYTHON) -m compileall -q src

# Made with uv: the machine's own, else one installed into .venv. No lock file: it would record package hosts.
.venv/.installed: pyproject.toml
	@set -e; uv=uv; \
	if ! uv --version >/dev/null 2>&1; then \
	  uv=.venv/bin/uv; \
	  python3 -c 'import ensurepip, venv' 2>/dev/null || { echo "python: installing python3-venv"; $(APT) update; $(APT) install --yes --no-install-recommends python3 python3-venv >/dev/null; }; \
	  [ -x $$uv ] || { python3 -m venv .venv; $(PYTHON) -m pip install --quiet uv; }; \
	fi; \
	[ -x $(PYTHON) ] || $$uv venv --quiet --no-python-downloads --python "$$(command -v python3)" .venv; \
	echo "python: installing hotdesk and its tools into .venv"; \
	$$uv pip install --quiet --python $(PYTHON) --compile-bytecode --editable . --group dev
	@touch $@
