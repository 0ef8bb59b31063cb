PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin/python
INSTALLED := $(VENV)/installed
SLOW_TIMEOUT ?= 3600
STUDY ?= study

# Without it pyright asks its registry for news at every start.
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1
# mkdocs-material advertises its successor with every build.
export NO_MKDOCS_2_WARNING := 1

.DELETE_ON_ERROR:
.PHONY: demo study test test-all lint format docs clean install

demo: $(INSTALLED)
	$(VENV)/bin/engram demo $(ARGS)

study: $(INSTALLED)
	$(VENV)/bin/engram study digits --out $(STUDY) $(ARGS)
	$(VENV)/bin/engram report $(STUDY)

test: $(INSTALLED)
	$(BIN) -m pytest $(ARGS)

test-all: $(INSTALLED)
	$(BIN) -m pytest -m "slow or not slow" --timeout $(SLOW_TIMEOUT) $(ARGS)

lint: $(INSTALLED)
	$(BIN) -m ruff format --check .
	$(BIN) -m ruff check .
	$(BIN) -m pyright --pythonpath $(BIN)

docs: $(INSTALLED)
	$(BIN) -m mkdocs build --strict --quiet

format: $(INSTALLED)
	$(BIN) -m ruff format .
	$(BIN) -m ruff check --fix .

install: $(INSTALLED)

# The stamp comes last, so an interrupted installation is taken up again.
$(INSTALLED): pyproject.toml constraints.txt
	@command -v "$(PYTHON)" >/dev/null || { echo "Engram needs Python 3.11 or newer, and '$(PYTHON)' is not a command here: install it, or name one with 'make PYTHON=python3.11 ...'." >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Engram needs Python 3.11 or newer, and $(PYTHON) is %d.%d: name a newer one with \"make PYTHON=python3.11 ...\"." % sys.version_info[:2])'
	@rm -f $@
	"$(PYTHON)" -m venv $(VENV)
	$(BIN) -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV) build dist site src/*.egg-info .pytest_cache .ruff_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
