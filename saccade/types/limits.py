"""Largest values of settings, so that each has a finite range.

They are far above what is useful on one machine. Whether a model of these sizes fits into memory is
estimated before it is built (`runs.memory`).
"""

MAX_WIDTH = 1 << 16  # of vectors, hidden layers and kernels
MAX_DEPTH = 1000  # layers
MAX_CHANNELS = 1 << 12  # of an image
MAX_IMAGE_SIZE = 1 << 14  # pixels of a side
MAX_LENGTH = 1 << 20  # positions, windows, lags and n-grams
MAX_COUNT = 10**9  # steps, tokens, rows and occurrences
MAX_VOCABULARY = (1 << 31) - 1  # tokens and labels: ids are 32-bit integers
MAX_VALUE = 1e9  # rates, penalties and other real numbers
MAX_MINUTES = 60.0 * 24 * 366
MAX_THREADS = 1024
MAX_NGRAM = 100  # words or characters of an n-gram
MAX_ACCUMULATION = 10_000  # batches of one step
MAX_AVERAGED = 1000  # checkpoints in memory
MAX_BEAM = 1000  # hypotheses: each has a row of all tokens in memory
MAX_CHOICES = 10_000  # candidates, or examples in a prompt
MAX_PENALTY = 100.0  # larger penalties of a search overflow
MAX_EPISODES = 100_000  # of an evaluation
MAX_TRAININGS = 1000  # of one model in a comparison
MAX_PLOTTED_WIDTH = 4096  # units of a layer whose eigenvalues are computed
MAX_SEED = (1 << 63) - 1
