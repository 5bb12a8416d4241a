# Two commands do everything: `make run` and `make test`. The rest is listed by `make help`.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
WORKERS ?= 3
BIN := $(VENV)/bin
SOURCES := pyproject.toml $(wildcard estimators/*/*.pyx packaging/locks/*.txt)

.DEFAULT_GOAL := help

.PHONY: help run test lowest audit lint types bench docs site wheel deb image clean compiler brokers

help: ## list the targets
	@awk -F':.*## ' '/^[a-z]+:.*## /{printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

compiler:
	@scripts/install-compiler "$(PYTHON)"

$(VENV)/.run-installed: $(SOURCES) | compiler
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@scripts/install-editable $(BIN) packaging/locks/build.txt
	@touch $@

$(VENV)/.test-installed: $(SOURCES) | compiler
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@scripts/install-editable $(BIN) packaging/locks/dev.txt
	@touch $@ $(VENV)/.run-installed

brokers:
	@scripts/install-brokers

run: $(VENV)/.run-installed ## install into .venv and run the embedded default configuration
	$(BIN)/detector run --config config.yaml

test: $(VENV)/.test-installed brokers ## install everything the tests need and run them all
	$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile --durations 25

lowest: compiler ## run tests with the lowest versions of libraries that pyproject.toml allows (Python 3.11)
	scripts/try-lowest

audit: $(VENV)/.test-installed ## ask whether vulnerabilities are known of what is installed
	$(BIN)/python scripts/audit

lint: $(VENV)/.test-installed ## ruff: style and format; import-linter: who may import whom
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --config importlinter.ini

types: $(VENV)/.test-installed ## mypy, strict on the three packages
	$(BIN)/mypy

bench: $(VENV)/.test-installed ## run every benchmark at its quick size
	@for b in benchmarks/*.py; do echo "== $$b"; $(BIN)/python $$b --quick || exit 1; done

docs: $(VENV)/.test-installed ## write anew what is made from the code: references, schemas, map, man pages
	$(BIN)/python -m detector.config.reference docs/configuration.md
	$(BIN)/detector schema >$(VENV)/schema && mv $(VENV)/schema detector/config/config.schema.json
	$(BIN)/python -m detector.events.schema >$(VENV)/schema && mv $(VENV)/schema detector/events/event.schema.json
	$(BIN)/python scripts/metrics-reference
	$(BIN)/python scripts/events-reference
	$(BIN)/python scripts/make-man
	$(BIN)/python scripts/make-architecture
	$(BIN)/python scripts/make-licences

site: $(VENV)/.test-installed ## execute the notebooks and build the documentation as static files into build/site
	$(BIN)/python scripts/run-notebooks build/notebooks
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --config-file site/mkdocs.yml

wheel: $(VENV)/.test-installed ## build sdist and wheel into dist, twice the same; try the wheel where there is no checkout
	scripts/build-wheel $(BIN)/python dist --twice
	scripts/try-wheel "$(PYTHON)" dist/*.whl

deb: wheel ## build a Debian package into dist; as root, install and start it under a systemd of its own
	scripts/build-deb dist/*.whl dist
	DETECTOR_DEB=$$(echo $(CURDIR)/dist/*.deb) $(BIN)/python -m pytest -q tests/test_deb.py

image: deb ## build the container image without a daemon (root, buildah), and run the program in it
	scripts/try-image

clean: ## remove what the build left behind
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache
	find . -name '*.so' -o -name '__pycache__' -o -path './estimators/*/_*.c' | grep -v '^./.git/' | xargs rm -rf
