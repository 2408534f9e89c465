# make demo    set everything up, train a translator of dates, show why it answers as it does
# make test    set everything up, run all checks and tests
# make help    the other verbs

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
PEERS := .peers/.ready

.PHONY: help setup demo format check test fuzz prove sizes bench bench-translate bench-answer bench-gpt bench-vectors pictures \
	clean

help:
	@echo "make demo     set everything up and train a translator of dates"
	@echo "make test     set everything up, then all checks and tests"
	@echo "make setup    only make the .venv"
	@echo "make format   put the code in the house's form"
	@echo "make check    form, lint and types"
	@echo "make fuzz     the property tests with new random examples"
	@echo "make prove    the long tests, minutes each"
	@echo "make sizes    lines per room, longest files and functions"
	@echo "make bench    the benchmarks"
	@echo "make bench-translate  training beside other tools, in an environment of theirs (.peers)"
	@echo "make bench-vectors  word vectors beside gensim's and fastText's"
	@echo "make bench-gpt  GPTs beside Hugging Face's, training and writing"
	@echo "make bench-answer RUN=runs/mine  answering beside other tools, with a run's weights"
	@echo "make pictures the pictures of the docs"
	@echo "make clean    remove .venv, .peers and caches; runs stay"

setup: $(READY)

# torch comes first and by its pin: left to itself, pip may fetch and unpack several builds of it
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "Saccade needs Python 3.11 or newer, but '$(PYTHON)' is: $$($(PYTHON) --version 2>&1)."; \
		echo "If you have a newer one, name it: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@test -x $(BIN)/pip || $(PYTHON) -m venv --clear .venv || { \
		echo "The .venv could not be made. On Debian and Ubuntu: apt install python3-venv"; exit 1; }
	@echo "Setting up .venv, once. torch is the large part and may take some minutes."
	$(BIN)/pip install --constraint constraints.txt torch
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

demo: $(READY)
	$(BIN)/saccade demo

format: $(READY)
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# a process for each core; a file's tests stay together, since they share what they have trained
test: check
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder

# every run draws other examples; a failure prints the line that reproduces it
fuzz: $(READY)
	SACCADE_HYPOTHESIS=fuzz $(BIN)/python -m pytest -n auto --dist load -m "hypothesis and not long"

prove: $(READY)
	$(BIN)/python -m pytest -m long --timeout=3600

sizes: $(READY)
	@$(BIN)/python tools/sizes.py

# benchmarks/ten_million_pairs.py takes many minutes: it is run by hand
BENCHMARKS := machine transformer_training memory recurrent cells windows kernels waiting checkpoints \
	optimisers svm shift

bench: $(READY)
	@for name in $(BENCHMARKS); do \
		echo "--- $$name"; $(BIN)/python benchmarks/$$name.py || exit 1; echo; done

# the other tools' environment: their pins, then those whose own pins forbid it, then Saccade itself
$(PEERS): benchmarks/peers/requirements.txt benchmarks/peers/without_dependencies.txt pyproject.toml
	@test -x .peers/bin/pip || $(PYTHON) -m venv --clear .peers
	@echo "Setting up .peers, once. torch is the large part and may take some minutes."
	.peers/bin/pip install --quiet torch==$$(sed -n 's/^torch==//p' benchmarks/peers/requirements.txt)
	.peers/bin/pip install --quiet --requirement benchmarks/peers/requirements.txt
	.peers/bin/pip install --quiet --no-deps --requirement benchmarks/peers/without_dependencies.txt
	.peers/bin/pip install --quiet --no-deps --editable .
	@touch $@

# MORE hands options on: make bench-translate MORE='--windows 2 --seconds 3 --warm 3'
bench-translate: $(PEERS)
	.peers/bin/python benchmarks/translate.py --json .peers/transformer.json $(MORE)
	.peers/bin/python benchmarks/translate.py --model recurrent --json .peers/recurrent.json $(MORE)
	.peers/bin/python benchmarks/translate.py --profile --json .peers/profile.json

bench-gpt: $(PEERS)
	.peers/bin/python benchmarks/gpt.py --size laptop --json .peers/gpt-laptop.json $(MORE)
	.peers/bin/python benchmarks/gpt.py --size small --json .peers/gpt-small.json $(MORE)
	.peers/bin/python benchmarks/gpt.py --size small --what compiled --json .peers/gpt-compiled.json $(MORE)
	.peers/bin/python benchmarks/gpt.py --size small --what write --json .peers/gpt-write.json $(MORE)
	.peers/bin/python benchmarks/gpt.py --size small --what profile

bench-vectors: $(PEERS)
	.peers/bin/python benchmarks/vectors.py --json .peers/vectors.json $(MORE)
	.peers/bin/python benchmarks/word_rows.py

bench-answer: $(PEERS)
	@test -n "$(RUN)" || { \
		echo "Say which run is to answer: make bench-answer RUN=runs/mine"; exit 1; }
	.peers/bin/python benchmarks/answering.py $(RUN) --json .peers/answering.json $(MORE)

pictures: $(READY)
	test -f runs/demo/report/curves.png || $(BIN)/saccade demo
	$(BIN)/saccade look runs/demo "четверг, 21 августа 1969 г." --save docs/attention.png
	cp runs/demo/report/curves.png docs/curves.png
	$(BIN)/saccade look activations --save docs/activations.png
	$(BIN)/saccade look depth --activation sigmoid --init xavier --layers 20 --save docs/depth.png
	$(BIN)/python examples/support_vectors.py docs/margin.png

clean:
	rm -rf .venv .peers .mypy_cache .ruff_cache .pytest_cache .hypothesis
