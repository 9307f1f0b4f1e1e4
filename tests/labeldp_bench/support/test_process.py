"""Ctrl-C, whoever swallows it."""

import signal

import pytest

from labeldp_bench.support.process import remembering_ctrl_c


def swallow():
    """Does what a compiler's callback does with an exception."""
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        return


def own_error():
    swallow()
    raise RuntimeError("half-compiled")


@pytest.mark.parametrize("library", [swallow, own_error])
def test_ctrl_c_that_a_library_swallows_comes_after_it(library):
    # Whoever stops a run while numba compiles would wait for the whole run.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), remembering_ctrl_c():
            library()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        with pytest.raises(RuntimeError), remembering_ctrl_c():
            raise RuntimeError("no Ctrl-C at all")
    finally:
        signal.signal(signal.SIGINT, before)
