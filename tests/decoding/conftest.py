import pytest


@pytest.fixture(scope="session")
def toy():
    """`toy(vocab_size, sharpness)`: a stepper whose logits are drawn by (sentence, prefix)."""
    import torch

    from saccade.types.shapes import DecoderState  # not before the shape checks are in place

    class Toy:
        bos, eos = 0, 1

        def __init__(self, vocab_size, sharpness=1.0):
            self.vocab_size, self.sharpness, self.known = vocab_size, sharpness, {}

        def logits(self, seed, prefix):
            """Return the logits after the prefix, which excludes bos."""
            key = (int(seed), *prefix)
            if key not in self.known:
                drawn = torch.Generator().manual_seed(hash(key) % 2**62)
                self.known[key] = self.sharpness * torch.randn(
                    self.vocab_size, dtype=torch.float64, generator=drawn
                )
            return self.known[key]

        def init_state(self, memory):
            return DecoderState(memory, torch.empty(len(memory), 0, dtype=torch.long))

        def step(self, ids, state):
            memory, cache = state
            now = torch.cat([cache, ids], dim=1)
            seeds = memory.repeat_interleave(len(ids) // len(memory)).tolist()
            rows = [
                self.logits(seed, row[1:]) for seed, row in zip(seeds, now.tolist(), strict=True)
            ]
            return torch.stack(rows)[:, None], DecoderState(memory, now)

    return Toy
