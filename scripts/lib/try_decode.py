"""
Decode once with the compiled llama.cpp, in a process of its own.

A library that was built for instructions or a GPU that this machine does not permit does not
raise: it ends the process. Better here, with a remedy, than at the robot's first goal.
"""

import ctypes
import sys

import llama_cpp.llama_cpp as llama


def main(path: str) -> None:
    """
    Evaluate one prompt-sized batch and one single token.

    :param path: a GGUF file
    :raises SystemExit: if the model cannot be loaded or decoded
    """
    llama.llama_backend_init()
    params = llama.llama_model_default_params()
    # Every layer on the GPU where there is one: a wrong CUDA architecture shows here.
    params.n_gpu_layers = 999
    model = llama.llama_model_load_from_file(path.encode(), params)
    if not model:
        sys.exit(f'error: llama.cpp cannot load {path}')
    context = llama.llama_init_from_model(model, llama.llama_context_default_params())
    # 64 tokens take the matrix kernels, one token the vector kernels.
    for num_tokens in (64, 1):
        tokens = (ctypes.c_int32 * num_tokens)(*range(100, 100 + num_tokens))
        code = llama.llama_decode(context, llama.llama_batch_get_one(tokens, num_tokens))
        if code:
            sys.exit(f'error: llama_decode of {num_tokens} tokens returned {code}')
    llama.llama_free(context)
    llama.llama_model_free(model)


if __name__ == '__main__':
    main(sys.argv[1])
