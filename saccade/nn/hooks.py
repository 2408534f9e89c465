"""Forward hooks that act in one thread only, so that threads can share a model."""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from torch import nn

_registration_lock = threading.Lock()  # torch counts the ids of hooks without one


class ThreadHook:
    """A forward hook that ignores forward passes of other threads than the one that made it."""

    def __init__(self, function: Callable[[Any, Any, Any], None]):
        self.function, self.thread = function, threading.get_ident()

    @property
    def is_active(self) -> bool:
        """True in the thread that made the hook."""
        return threading.get_ident() == self.thread

    def __call__(self, module: nn.Module, inputs: Any, output: Any) -> None:
        """Observe a forward pass."""
        if self.is_active:
            self.function(module, inputs, output)


@contextmanager
def thread_hooks(
    modules: Mapping[str, nn.Module], function: Callable[[str, Any, Any, Any], None]
) -> Iterator[None]:
    """Call `function(name, module, inputs, output)` after their forward passes, in this thread."""
    with ExitStack() as stack:
        for name, module in modules.items():
            with _registration_lock:
                hook = module.register_forward_hook(ThreadHook(partial(function, name)))
            stack.callback(hook.remove)
        yield


def has_hooks(modules: Iterable[nn.Module]) -> bool:
    """Return True if hooks observe or change forward passes of this thread."""
    for module in modules:
        if not (module._forward_hooks or module._forward_pre_hooks):
            continue
        # a copy, since other threads register and remove theirs
        hooks = (*module._forward_hooks.values(), *module._forward_pre_hooks.values())
        if any(not isinstance(hook, ThreadHook) or hook.is_active for hook in hooks):
            return True
    return False
