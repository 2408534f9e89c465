"""Entry point of a benchmark process: `python -m peers.contestant NAME ...`.

NAME is a module of this folder with a function `compete(pipe, *arguments)`. It is imported by name,
so that a process loads only its own libraries.
"""

import sys
from importlib import import_module

from peers.pipe import Pipe

if __name__ == "__main__":
    pipe = Pipe()
    import_module(f"peers.{sys.argv[1]}").compete(pipe, *sys.argv[2:])
