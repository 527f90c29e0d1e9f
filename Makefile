# Needs Python 3.11 or later and nothing else: every target makes the environment it runs in.
#   make test        lint, types, tests          make demo    a small transformer in every view
#   make bench       overhead against the peers  make format  put the code in form
#   make faults      every fault test in full    make bugs    what it says of each faulty program of tests/bugs
#   make zoo         trace hundreds of models    make soak    100,000 training steps (under an hour)
#   make sinks       Weights & Biases and MLflow, in an environment of their own (large)
#   make docs        the site in build/docs      make package the sdist and the wheel in dist, checked
#   make clean       start anew
#   make PYTHON=python3.12 test                  another Python (after `make clean`)

PYTHON ?= python3
VENV := .venv
BENCH := .venv-bench
ZOO := .venv-zoo
SINKS := .venv-sinks
CODE := src tests dropins docs packaging $(wildcard benchmarks)

.PHONY: test demo docs bench browser bugs faults zoo sinks soak versions lint types unit package format clean
.DELETE_ON_ERROR:

# The browser is fetched while the environment is made.
test:
	@$(MAKE) --no-print-directory --jobs 2 browser lint types package
	@$(MAKE) --no-print-directory unit

lint: $(VENV)/ready
	$(VENV)/bin/ruff check $(CODE)
	$(VENV)/bin/ruff format --check $(CODE)

types: $(VENV)/ready
	$(VENV)/bin/mypy

# Two at a time: many tests wait for processes of their own.
unit: $(VENV)/ready browser
	$(VENV)/bin/python -m pytest -q --numprocesses 2 --dist worksteal

# A browser for the tests of the page: Debian's own, unless there is one. INSITU_CHROMIUM names another.
browser:
	@$(find_browser) || { $(as_root) apt-get update -qq && $(as_root) apt-get install -y -qq chromium >/dev/null; }

find_browser = test -n "$$INSITU_CHROMIUM" || for name in chromium chromium-browser google-chrome chrome; do command -v $$name >/dev/null && break; done
as_root = $(if $(filter 0,$(shell id -u)),,sudo -n)

demo: $(VENV)/ready
	$(VENV)/bin/python -m insitu demo

docs: $(VENV)/ready
	$(VENV)/bin/mkdocs build --strict --quiet
	@echo "open build/docs/index.html"

# Builds them, and installs the wheel into an empty environment.
package: $(VENV)/ready
	$(VENV)/bin/python packaging/check.py $(EXTRAS)

format: $(VENV)/ready
	$(VENV)/bin/ruff check --fix $(CODE)
	$(VENV)/bin/ruff format $(CODE)

# The peers it is measured against include the original of a drop-in, which has the same import name: the drop-ins
# stay out of this environment.
bench: $(BENCH)/ready
	$(BENCH)/bin/python -m benchmarks

faults: $(VENV)/ready
	INSITU_FAULTS=full $(VENV)/bin/python -m pytest -q tests/faults tests/hostile tests/session/test_signals.py --timeout 7200

bugs: $(VENV)/ready
	$(VENV)/bin/python -m tests.bugs

zoo: $(ZOO)/ready
	$(ZOO)/bin/python -m tests.zoo

sinks: $(SINKS)/ready
	$(SINKS)/bin/python -m pytest -q tests/sinks

soak: $(VENV)/ready
	$(VENV)/bin/python -m tests.soak

# An environment for each pair of torch and Python; PAIRS="2.8.0/3.12 newest/3.13" tries some of them.
versions: $(VENV)/ready
	$(VENV)/bin/python -m tests.versions $(PAIRS)

clean:
	rm -rf $(VENV) $(BENCH) $(ZOO) $(SINKS) build dist .mypy_cache .ruff_cache .pytest_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# torch is installed before anything that depends on it, so that no resolver ever has a reason to choose another one.
$(VENV)/torch $(BENCH)/torch $(ZOO)/torch $(SINKS)/torch: constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "insitu needs Python 3.11 or later, and $(PYTHON) is older: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(@D)
	$(call install,$(@D)) torch
	touch $@

$(VENV)/ready: $(VENV)/torch pyproject.toml dropins/pyproject.toml
	$(call install,$(@D)) --editable '.[dev]' --editable dropins
	$(call check_torch,$(@D))
	touch $@

$(BENCH)/ready: benchmarks/requirements.txt
$(ZOO)/ready: tests/zoo/requirements.txt
$(SINKS)/ready: tests/sinks/requirements.txt
$(BENCH)/ready $(ZOO)/ready $(SINKS)/ready: %/ready: %/torch pyproject.toml
	$(call install,$(@D)) --editable . --requirement $(filter %requirements.txt,$^)
	$(call check_torch,$(@D))
	touch $@

install = $(1)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
check_torch = @$(1)/bin/python -c 'from importlib.metadata import version; from pathlib import Path; torch = "torch==" + version("torch").split("+")[0]; assert torch in Path("constraints.txt").read_text().split(), f"{torch} was installed, against constraints.txt"'
