# Needs Python 3.11 or newer (the pinned environments do) and git; everything else is installed
# into .venv (both frameworks, numpy 1) and .venv-core (no framework, numpy 2). Where there is npm, the
# linter of the widgets' pages goes into node_modules.
PYTHON ?= python3
FULL := .venv/.installed
CORE := .venv-core/.installed
PAGES := $(if $(shell command -v npm),node_modules/.installed)
PIP_FULL := .venv/bin/python -m pip install --quiet
PIP_CORE := .venv-core/bin/python -m pip install --quiet
# Always pinned: a plain `torch` may bring several GB of CUDA libraries.
pin = "$$(grep '^$(1)==' constraints/full.txt)"
# Jupyter refuses to run as root (a container, say) unless told.
ALLOW_ROOT = $(shell [ "$$(id -u)" = 0 ] && echo --allow-root)

.PHONY: help demo lab docs first-hour check test test-long worlds bench clean distclean
help:
	@echo "make demo       run a template to a proved cause; prints the verdict and the files it wrote"
	@echo "                LEFT=... RIGHT=... takes two runs of your own"
	@echo "make lab        open the template notebooks in JupyterLab"
	@echo "make docs       build the documentation into build/docs"
	@echo "make first-hour run the documented first hour from a wheel in a fresh environment"
	@echo "make check      lint, types and a core set of tests, in two or three minutes"
	@echo "make test       lint, types and all tests, in both environments"
	@echo "make test-long  the tests with far more random cases"
	@echo "make worlds     other Pythons, releases and frameworks: the list; WORLD=minimum runs one"
	@echo "make bench      all measurements against our bars, in one table"
	@echo "make clean      remove caches and builds (distclean: the environments too)"

# A stamp file per environment: installed again only when the project's needs change.
LOOP := hatch_build.py $(addprefix troubleshooter_nb/metrics/,fused.c locate_loop.c relation_loop.c \
    sketch_loop.c loops.h)
$(FULL): pyproject.toml $(LOOP) constraints/full.txt constraints/core.txt
	$(PYTHON) -m venv .venv
	@if $(PIP_FULL) --dry-run --no-deps --only-binary=:all: $(call pin,mindspore) >/dev/null 2>&1; \
	then \
	    set -x; $(PIP_FULL) -c constraints/full.txt -e '.[all,dev]'; \
	else \
	    echo "MindSpore has no wheel for this Python or platform: installing without it"; \
	    set -x; $(PIP_FULL) -c constraints/core.txt $(call pin,torch) \
	        -e '.[torch,notebook,excel,netcdf,distributed,dev]'; \
	fi
	touch $@

$(CORE): pyproject.toml $(LOOP) constraints/core.txt
	$(PYTHON) -m venv .venv-core
	$(PIP_CORE) -c constraints/core.txt -e '.[excel,netcdf,test]'
	touch $@

node_modules/.installed: package.json package-lock.json
	npm ci --no-audit --no-fund
	touch $@

# Runs of one's own: make demo LEFT=ms_run RIGHT=torch_run. That they differ is an answer, no failure.
demo: $(FULL)
	@.venv/bin/tnb notebook run why_do_they_differ --html -o records/ \
	    $(if $(LEFT),-r left "$(LEFT)") $(if $(RIGHT),-r right "$(RIGHT)"); test $$? -le 1

lab: $(FULL)
	.venv/bin/jupyter lab $(ALLOW_ROOT) notebooks/

# Every warning of Sphinx is an error. DOCS_PYTHON=... takes an environment that is there already.
DOCS := .venv-docs/.installed
DOCS_PYTHON := .venv-docs/bin/python
$(DOCS): pyproject.toml constraints/docs.txt
	$(PYTHON) -m venv .venv-docs
	.venv-docs/bin/python -m pip install --quiet -c constraints/docs.txt -e '.[docs]'
	touch $@

docs: $(if $(filter file,$(origin DOCS_PYTHON)),$(DOCS))
	$(DOCS_PYTHON) -m sphinx -W --keep-going -q -b html -d build/doctrees docs build/docs
	@echo "build/docs/index.html"

first-hour:
	@PYTHON=$(PYTHON) bash tests/first_hour.sh

# parts.py installs all environments as its first parts, so that their time is in the table.
test:
	@$(PYTHON) .ci/parts.py

check: $(FULL) $(PAGES)
	@$(PYTHON) .ci/parts.py check

test-long: $(FULL)
	@$(PYTHON) .ci/parts.py test-long

worlds:
	@$(PYTHON) .ci/worlds.py $(WORLD)

# One that misses its bar does not keep the others from being run.
bench: $(FULL)
	.venv/bin/python benchmarks/run.py

clean:
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis rank_0 kernel_meta
	find troubleshooter_nb tests benchmarks notebooks -name __pycache__ -prune -exec rm -rf {} +

distclean: clean
	rm -rf .venv .venv-core .venv-docs node_modules
