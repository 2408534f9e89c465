# make demo    install, train a date translator, show its attention
# make test    install, run all checks and tests
# make help    the other targets

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
PEERS := .peers/.ready

.PHONY: help setup demo format check test fuzz prove sizes bench bench-translate bench-answer bench-bert bench-gpt bench-vectors \
	bench-images bench-control pictures clean

help:
	@echo "make demo     install and train a date translator"
	@echo "make test     install, then all checks and tests"
	@echo "make setup    create the .venv only"
	@echo "make format   format the code"
	@echo "make check    format, lint and types"
	@echo "make fuzz     random inputs for MINUTES=60: property tests, and a coverage-guided fuzzer"
	@echo "make prove    the long tests, minutes each"
	@echo "make sizes    lines per package, longest files and functions"
	@echo "make bench    the benchmarks"
	@echo "make bench-translate  training speed against other tools, in a separate environment (.peers)"
	@echo "make bench-vectors  word vectors against gensim and fastText"
	@echo "make bench-bert  BERT pretraining against Hugging Face"
	@echo "make bench-gpt  GPT training and generation against Hugging Face"
	@echo "make bench-embeddings  sentence vectors against sentence-transformers"
	@echo "make bench-images  image training, inference and decoding against plain torch and Pillow"
	@echo "make bench-control  DQN on CartPole against stable-baselines3"
	@echo "make bench-answer RUN=runs/mine  inference speed against other tools, with a run's weights"
	@echo "make pictures the figures of the docs"
	@echo "make clean    remove .venv, .peers and caches; runs stay"

setup: $(READY)

# torch is installed first and pinned: otherwise pip may download and unpack several builds
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "Saccade needs Python 3.11 or newer, but '$(PYTHON)' is: $$($(PYTHON) --version 2>&1)."; \
		echo "If you have a newer one, name it: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@test -x $(BIN)/pip || $(PYTHON) -m venv --clear .venv || { \
		echo "Could not create the .venv. On Debian and Ubuntu: apt install python3-venv"; exit 1; }
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

# one process per core; the tests of a file stay together, since they share trained models
test: check
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder

# new examples of the property tests, then the coverage-guided fuzzer for the rest of the time;
# a failure prints the line that reproduces it, and .fuzz/ keeps inputs and findings
MINUTES ?= 60
ifndef SEED
SEED := $(shell date +%s)
endif

fuzz: $(READY)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[fuzz]'
	@echo "seed $(SEED), $(MINUTES) minutes"
	@start=$$(date +%s); \
	SACCADE_HYPOTHESIS=fuzz timeout $$(( $(MINUTES) * 60 / 4 )) $(BIN)/python -m pytest -n auto --dist load \
		-x -m "hypothesis and not long" --hypothesis-seed=$(SEED); code=$$?; \
	test $$code -eq 124 && code=0; \
	left=$$(( $(MINUTES) * 60 + start - $$(date +%s) )); \
	$(BIN)/python -m fuzz all --seconds $$left --seed $(SEED) && exit $$code

prove: $(READY)
	$(BIN)/python -m pytest -m long --timeout=14400

sizes: $(READY)
	@$(BIN)/python tools/sizes.py

# benchmarks/ten_million_pairs.py takes many minutes and is run by hand
BENCHMARKS := machine transformer_training memory recurrent cells windows kernels waiting checkpoints \
	optimisers svm shift

bench: $(READY)
	@for name in $(BENCHMARKS); do \
		echo "--- $$name"; $(BIN)/python benchmarks/$$name.py || exit 1; echo; done

# environment of the other tools: their pins, then those with conflicting pins, then Saccade
$(PEERS): benchmarks/peers/requirements.txt benchmarks/peers/without_dependencies.txt pyproject.toml
	@test -x .peers/bin/pip || $(PYTHON) -m venv --clear .peers
	@echo "Setting up .peers, once. torch is the large part and may take some minutes."
	.peers/bin/pip install --quiet torch==$$(sed -n 's/^torch==//p' benchmarks/peers/requirements.txt)
	.peers/bin/pip install --quiet --requirement benchmarks/peers/requirements.txt
	.peers/bin/pip install --quiet --no-deps --requirement benchmarks/peers/without_dependencies.txt
	.peers/bin/pip install --quiet --no-deps --editable .
	@touch $@

# MORE passes options: make bench-translate MORE='--windows 2 --seconds 3 --warm 3'
bench-translate: $(PEERS)
	.peers/bin/python benchmarks/translate.py --json .peers/transformer.json $(MORE)
	.peers/bin/python benchmarks/translate.py --model recurrent --json .peers/recurrent.json $(MORE)
	.peers/bin/python benchmarks/translate.py --profile --json .peers/profile.json

bench-bert: $(READY)
	$(BIN)/python benchmarks/bert.py --size tiny $(MORE)
	$(BIN)/python benchmarks/bert.py --size small $(MORE)

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
		echo "no run given; pass one: make bench-answer RUN=runs/mine"; exit 1; }
	.peers/bin/python benchmarks/answering.py $(RUN) --json .peers/answering.json $(MORE)

bench-control: $(PEERS)
	.peers/bin/python benchmarks/control.py --json .peers/control.json $(MORE)

bench-images: $(READY)
	$(BIN)/python benchmarks/images.py $(MORE)

.PHONY: bench-embeddings
bench-embeddings: $(READY)
	$(BIN)/python benchmarks/embeddings.py $(MORE)

pictures: $(READY)
	test -f runs/demo/report/curves.png || $(BIN)/saccade demo
	$(BIN)/saccade look runs/demo "четверг, 21 августа 1969 г." --save docs/attention.png
	cp runs/demo/report/curves.png docs/curves.png
	$(BIN)/saccade plot activations --save docs/activations.png
	$(BIN)/saccade plot signal --activation sigmoid --init xavier --layers 20 --save docs/depth.png
	$(BIN)/python examples/support_vectors.py docs/margin.png
	test -d runs/wine || $(BIN)/saccade train table --set data.synthetic=wine --set train.steps=200 --out runs/wine
	$(BIN)/saccade look runs/wine --importance --save docs/importance.png > /dev/null
	test -d runs/scenes || $(BIN)/saccade train caption --set train.threads=1 --out runs/scenes
	$(BIN)/saccade look runs/scenes "scenes#3" --save docs/captions.png > /dev/null

clean:
	rm -rf .venv .peers .fuzz .mypy_cache .ruff_cache .pytest_cache .hypothesis
