"""The flag that llama.cpp reads between graph nodes, without Python in between."""

import ctypes
import os

import llama_cpp.llama_cpp as llama
from robot_llm.errors import ModelLoadError


class LlamaAbortFlag:
    """
    Stop a running ``llama_decode`` from any thread, and see that it goes on.

    ``llama_set_abort_callback`` wants ``bool (*)(void *)``, and llama.cpp's CPU backend calls it
    behind every graph node. A Python function would take the GIL each time; libc's ``sem_post``
    needs none. It adds one to a semaphore and returns 0, or returns -1, which is true, where the
    value is as large as it can be. So the value counts the nodes, and to make it the largest is to
    abort. Nobody ever waits on the semaphore: to initialise it anew is a store, and ``sem_post``
    compares and swaps, so that one beside it adds before or fails behind.
    Source: measured, decode returns within 1 to 9 ms in the middle of a 512-token prefill on two
    x86 cores. On CUDA the callback is not called, and the chunk size is the bound.

    The object must outlive the context, which keeps raw pointers to it.
    """

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None)
        # No sem_t is larger; a long gives it the alignment that it wants.
        self._semaphore = (ctypes.c_long * 16)()
        self._largest = os.sysconf('SC_SEM_VALUE_MAX')
        self._callback = ctypes.cast(self._libc.sem_post, llama.ggml_abort_callback)
        self._num_nodes = 0
        self.clear()

    def set(self) -> None:
        """Ask the running decode to end, and every later one."""
        self._num_nodes = self.num_nodes
        self.is_set = True
        self._store(self._largest)

    def clear(self) -> None:
        """Let the next decode run; the count begins again."""
        self._store(0)
        self.is_set = False

    @property
    def num_nodes(self) -> int:
        """How many graph nodes were evaluated since ``clear``; rises while a decode runs."""
        value = ctypes.c_int()
        self._libc.sem_getvalue(self._semaphore, ctypes.byref(value))
        return self._num_nodes if value.value == self._largest else value.value

    def attach(self, context: llama.llama_context_p) -> None:
        """
        Let ``context`` read the flag.

        :raises ModelLoadError: if the semaphores of this C library do not behave as they should
        """
        self._check()
        llama.llama_set_abort_callback(
            context, self._callback, ctypes.cast(self._semaphore, ctypes.c_void_p))

    def _check(self) -> None:
        self.clear()
        goes_on = self._libc.sem_post(self._semaphore) == 0 and self.num_nodes == 1
        self.set()
        # llama.cpp reads a bool: the lowest byte.
        stops = self._libc.sem_post(self._semaphore) & 0xff != 0
        self.clear()
        if not (goes_on and stops and self.num_nodes == 0):
            raise ModelLoadError(
                'a semaphore of this C library cannot stop a decode; set '
                'engine.use_abort_callback to false')

    def _store(self, value: int) -> None:
        self._libc.sem_init(self._semaphore, 0, ctypes.c_uint(value))
