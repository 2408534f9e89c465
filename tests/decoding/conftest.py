import pytest


@pytest.fixture(scope="session")
def toy():
    """`toy(vocab_size, sharpness)`: a stepper whose logits are drawn by (sentence, prefix)."""
    import torch

    from saccade.types import State  # not before the shape checks are in place

    class Toy:
        begin, end = 0, 1

        def __init__(self, vocab_size, sharpness=1.0):
            self.vocab_size, self.sharpness, self.known = vocab_size, sharpness, {}

        def logits(self, seed, prefix):
            """Of what follows the prefix, which has no begin mark."""
            key = (int(seed), *prefix)
            if key not in self.known:
                drawn = torch.Generator().manual_seed(hash(key) % 2**62)
                self.known[key] = self.sharpness * torch.randn(
                    self.vocab_size, dtype=torch.float64, generator=drawn
                )
            return self.known[key]

        def start(self, memory):
            return State(memory, torch.empty(len(memory), 0, dtype=torch.long))

        def step(self, ids, state):
            memory, past = state
            now = torch.cat([past, ids], dim=1)
            seeds = memory.repeat_interleave(len(ids) // len(memory)).tolist()
            rows = [
                self.logits(seed, row[1:]) for seed, row in zip(seeds, now.tolist(), strict=True)
            ]
            return torch.stack(rows)[:, None], State(memory, now)

    return Toy
