# shellcheck shell=bash disable=SC2154  # variables of scripts/setup
# Saying what happens: steps with progress, and failures in plain sentences.
# All of it goes to stderr, since `scripts/demo --json` owns stdout.

say() { printf 'robot_llm set-up: %s\n' "$*" >&2; }

# fail WHAT WHY REMEDY [LOG]: the only way out with an error.
fail() {
  {
    printf '\nrobot_llm set-up stopped while %s.\n  Why:        %s\n  What to do: %s\n' "$1" "$2" "$3"
    [[ -z ${4:-} ]] || printf '  All output: %s\n' "$4"
  } >&2
  exit 1
}

# run_step NAME COMMAND...: run it silently into a log, with a line every 15 seconds.
run_step() {
  local name=$1 pid rc=0 started=$SECONDS next=15
  local log="$log_folder/${name//[^a-zA-Z0-9.]/-}.log"
  shift
  mkdir -p "$log_folder"
  say "$name"
  # Its own process group (set -m), so that Ctrl-C can end the compilers below it too; and without
  # descriptors 8 and 9, or a left-over grandchild would hold the locks.
  set -m
  { trap - ERR; "$@"; } >"$log" 2>&1 </dev/null 8>&- 9>&- &
  pid=$!
  set +m
  trap 'kill -- -'"$pid"' 2>/dev/null; fail "$step_name" "it was interrupted" "run it again; what is done is kept"' INT TERM HUP
  step_name=$name
  while kill -0 "$pid" 2>/dev/null; do
    sleep 0.2
    if ((SECONDS - started >= next)); then
      say "$name: $((SECONDS - started)) s so far"
      next=$((next + 15))
    fi
  done
  wait "$pid" || rc=$?
  trap - INT TERM HUP
  ((rc == 0)) || explain_failure "$name" "$rc" "$log"
  ((SECONDS - started < 5)) || say "$name: done in $((SECONDS - started)) s"
}

# explain_failure STEP RC LOG: turn what a tool printed into why and remedy.
explain_failure() {
  local step=$1 rc=$2 log=$3 why remedy
  if has_line 'No space left on device|Disk quota exceeded'; then
    why='the disk is full'
    remedy='free about 3 GB where the checkout, the wheel cache and TMPDIR are, then run it again'
  elif ((rc == 137)) || has_line 'Killed signal|out of memory|Cannot allocate memory|MemoryError'; then
    why='the machine ran out of memory'
    remedy='close other programs, or set CMAKE_BUILD_PARALLEL_LEVEL=1, then run it again'
  elif ((rc == 132)); then
    why='llama.cpp was built with instructions that this processor does not permit'
    remedy="build a portable one: CMAKE_ARGS='-DGGML_NATIVE=OFF' scripts/setup"
  elif ((rc == 134)) && has_line 'CUDA'; then
    why='llama.cpp was built for another GPU'
    remedy="name this one's architecture: CMAKE_ARGS='-DGGML_CUDA=on -DCMAKE_CUDA_ARCHITECTURES=87' for Orin"
  elif has_line 'No CMAKE_CX*_COMPILER could be found|not able to compile a simple test program|CMAKE_CX*_COMPILER.*not'; then
    why='no working C++ compiler was found'
    remedy='install one (Debian, Ubuntu: sudo apt install g++), or set CC and CXX'
  elif has_line 'CMAKE_CUDA_COMPILER|CUDA Toolkit not found|Could NOT find CUDA'; then
    why='the CUDA compiler was not found, but CMAKE_ARGS asks for CUDA'
    remedy='put nvcc on the PATH (export PATH=/usr/local/cuda/bin:$PATH), or unset CMAKE_ARGS'
  elif has_line 'Python\.h|Could NOT find Python3.*Development'; then
    why='the headers of this Python are not installed'
    remedy='install them (Debian, Ubuntu: sudo apt install python3-dev)'
  elif has_line 'ensurepip is not|No module named .?(venv|ensurepip)'; then
    why='this Python cannot make virtual environments'
    remedy='install its venv module (Debian, Ubuntu: sudo apt install python3-venv)'
  elif has_line 'NewConnectionError|NameResolutionError|name resolution|Network is unreachable|Connection refused|ProxyError|ConnectTimeout|Read timed out|SSLError|HTTPError: (5|403|407)'; then
    why='the Python package index cannot be reached'
    remedy='check the network or the proxy (HTTPS_PROXY, pip config), then run it again'
  elif has_line 'No matching distribution found|not a supported wheel'; then
    why="no fitting build: $(grep -E 'No matching distribution found|not a supported' "$log" | tail -1)"
    remedy='check that the Python is 3.10 to 3.13 on x86-64 Linux, or install ROS 2 and source it'
  else
    why="$(last_words "$log") (exit code $rc)"
    remedy='read the end of the output named below'
  fi
  fail "$step" "$why" "$remedy" "$log"
}

# Look for an extended regular expression in explain_failure's log.
has_line() { grep -qE "$1" "$log"; }

# The last line that says something: an error if there is one.
last_words() {
  local line
  line=$(grep -iE '(^|[^a-z])(error|fatal)' "$1" | tail -1) || line=$(grep -v '^ *$' "$1" | tail -1) || :
  line=${line#"${line%%[![:space:]]*}"}
  printf '%.200s' "${line:-nothing was printed}"
}

# is_done STAMP WANTED: whether that work was done, and is still what is wanted. If not the stamp
# goes, since from now on the work is half-way. mark_done notes that it is done.
is_done() {
  [[ -f $stamps/$1 && $(<"$stamps/$1") == "$2" ]] && return
  rm -f "$stamps/$1"
  return 1
}
mark_done() { mkdir -p "$stamps" && printf '%s\n' "$2" >"$stamps/$1"; }

# hash_of FILE...: one hash over names and contents; hash_text: over the arguments themselves.
hash_of() { cat -- "$@" | cat - <(printf '%s\n' "$@") | sha256sum | cut -c1-16; }
hash_text() { printf '%s\n' "$@" | sha256sum | cut -c1-16; }
