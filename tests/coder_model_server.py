"""Serve a model's file on loopback with llama.cpp's server; runs in its own virtual environment."""

from __future__ import annotations

import sys
import threading
from importlib import import_module
from pathlib import Path
from typing import Any


def main(file: str, template: str, window: str) -> None:
    """Serve until terminated; print the port once the model is loaded.

    Use one thread: beside other programs, two threads mostly wait for each other and are slower.
    """
    library: Any = import_module("xllamacpp")
    params = library.CommonParams()
    params.model.path, params.n_ctx, params.n_parallel = file, int(window), 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.chat_template, params.use_jinja = Path(template).read_text(), True
    params.sampling.temp, params.verbosity = 0.2, 0
    server = library.Server(params)
    print(server.listening_address.rpartition(":")[2], flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
