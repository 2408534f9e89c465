"""The door through which a measured process is entered: `python -m peers.contestant NAME ...`.

NAME is a file beside this one with a function `compete(pipe, *arguments)`. It is loaded by name,
so that a process holds its own libraries and no other's.
"""

import sys
from importlib import import_module

from peers.pipe import Pipe

if __name__ == "__main__":
    pipe = Pipe()
    import_module(f"peers.{sys.argv[1]}").compete(pipe, *sys.argv[2:])
