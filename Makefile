# Nightbench. Start with `make demo`; `make help` lists the rest.
SHELL := /bin/bash
.DEFAULT_GOAL := help
# Most tests wait for processes: two for each core.
TEST_WORKERS ?= $(shell echo $$((2 * $$(nproc))))
.PHONY: help setup setup-analysis setup-dev demo test test-all test-rest test-lines test-browser drills figures stack lint ui docs pictures lock lock-line release down clean

help:  ## print the make targets
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup:  ## make .venv from the lock (the command is .venv/bin/nightbench)
	@tools/setup

setup-analysis:  ## make setup, and install the packages that write Parquet files
	@tools/setup --locks control analysis

setup-dev:  ## make setup-analysis, and install tools for tests, linters, Node.js, documentation
	@tools/setup --locks control analysis dev

demo: setup  ## start everything on this host, run the suite demo, show its results
	@.venv/bin/nightbench demo

test: setup-dev  ## run the tests before a commit; PostgreSQL comes from a wheel
	.venv/bin/python -m tests.contained -n $(TEST_WORKERS) -m "not slow and not large" $(TEST_OPTIONS)

test-all: test-rest test-browser  ## run all tests, also slow ones and Chromium; no drills, no large environments

test-rest: setup-dev
	.venv/bin/python -m tests.contained -n $(TEST_WORKERS) -m "not large" $(TEST_OPTIONS)

test-lines: setup-dev  ## test all framework lines, also large ones: needs 15 GB and an hour
	.venv/bin/python -m tests.contained -n 2 -m "framework or large"

test-browser: setup-dev
	.venv/bin/python -m tests.contained tests/browser $(TEST_OPTIONS)

drills: setup-dev  ## test with real faults, network namespaces and a live Airflow; needs root
	.venv/bin/python -m tests.contained tests/drills -p no:cacheprovider

figures: setup-dev  ## measure the cost of Nightbench itself on this host: launches, overhead, detection
	.venv/bin/python -m tests.performance

# make stack EXECUTOR=local: without Redis and Celery workers.
EXECUTOR ?= celery
ifeq ($(EXECUTOR),celery)
stack: export NIGHTBENCH_LOCKS ?= control analysis s3 celery
WORKERS = -f docker/compose.celery.yaml
endif
COMPOSE = docker compose -f docker/compose.yaml $(WORKERS)
PYTORCH = resnet50_v1.5-pytorch-collective
stack:  ## start the control plane, two Celery workers and four nodes in containers; run the demo
	python3 docker/make_secrets.py
	$(COMPOSE) up -d --build --wait
	$(COMPOSE) exec -T api-server python run_suite.py demo --cluster compose \
		--case $(PYTORCH)-1x1-bs2-smoke --case $(PYTORCH)-2x1-bs2-smoke
	$(COMPOSE) exec -T api-server nightbench results

lint: setup-dev  ## check format, lint, types, import rules, SQL, schemas, Dockerfiles
	@.ci/run lint

ui: setup-dev  ## build the pages inside Airflow from their TypeScript (after editing web/ui)
	@.venv/bin/python tools/ui.py

docs: setup-dev  ## build the documentation as a site in build/site; warnings are errors
	@.venv/bin/sphinx-build -qW --keep-going docs build/site
	@echo "build/site/index.html"

pictures: setup-dev  ## make the pictures of the documentation again; needs a running demo and Chromium
	.venv/bin/python -m tests.performance pictures

lock: setup  ## resolve requirements/*.in again (after editing one); versions stay, unless UPGRADE=1
	@.venv/bin/python tools/relock.py $(if $(UPGRADE),--upgrade)

lock-line: setup-dev  ## resolve a framework line's lock again: LINE=pytorch, VARIANT [default: cpu]
	@.venv/bin/nightbench lock "$(LINE)" "$(or $(VARIANT),cpu)"

release: setup-dev  ## check, set the version, build wheel, sdist, SBOM, hashes, tag: VERSION=0.2.0; publishes nothing
	@.venv/bin/python tools/release.py "$(VERSION)"

down:  ## stop what `make demo` started
	@if [ -x .venv/bin/nightbench ]; then .venv/bin/nightbench down; fi

clean: down  ## remove .venv and all state: results, logs, node environments
	@home=$${NIGHTBENCH_HOME:-.nightbench}; \
	if [ -e "$$home" ] && [ ! -e "$$home/secrets.json" ]; then \
		echo "$$home is no Nightbench home: not removed" >&2; exit 1; \
	fi; \
	rm -rf -- "$$home" .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
