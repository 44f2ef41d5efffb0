# shellcheck shell=bash disable=SC2154  # variables of scripts/setup
# Our own two packages: the interfaces are generated and compiled, the Python package is put where
# Python and ROS look for it.

# With a ROS installation: colcon builds both into install/, as on any robot.
# Without: the interfaces are installed into .venv itself, which is laid out like a ROS prefix
# (lib, share, lib/pythonX/site-packages), so that .venv/bin/python needs nothing else to find them.
install_own_packages() {
  if [[ $mode == ros ]]; then
    build_with_colcon
  else
    build_interfaces
    link_package
  fi
}

build_interfaces() {
  local source="$root/robot_llm_msgs" build="$venv/.setup/build" wanted
  local -a files
  mapfile -t files < <(find "$source" -type f ! -name '*.rst' | LC_ALL=C sort)
  wanted=$(hash_of "${files[@]}")
  if is_done interfaces "$wanted"; then return; fi
  # A message that was removed or renamed must not stay behind.
  remove_installed "$build/install_manifest.txt"
  run_step 'building the interfaces (robot_llm_msgs)' cmake_interfaces "$source" "$build"
  mark_done interfaces "$wanted"
}

# remove_installed MANIFEST: only what lies in this .venv: one that was copied from another checkout
# names that one's files.
remove_installed() {
  local file
  [[ -f $1 ]] || return 0
  # CMake leaves out the end of the last line.
  while IFS= read -r file || [[ -n $file ]]; do
    [[ $file != "$venv"/* ]] || rm -f "$file"
  done <"$1"
}

cmake_interfaces() {
  export AMENT_PREFIX_PATH=$venv CMAKE_PREFIX_PATH=$venv PATH=$venv/bin:$PATH
  # BUILD_TESTING=OFF: else the generators ask for linters that have no wheel.
  "$venv/bin/cmake" -G Ninja -S "$1" -B "$2" -DBUILD_TESTING=OFF -DCMAKE_BUILD_TYPE=Release \
    -DPython3_EXECUTABLE="$venv/bin/python" -DCMAKE_INSTALL_PREFIX="$venv" \
    && "$venv/bin/cmake" --build "$2" && "$venv/bin/cmake" --install "$2"
}

# The Python package in place, by symbolic links, as `colcon build --symlink-install` does it: an
# edit counts at once. Not `pip install -e .`, which copies share/ as it is on that day, and puts
# programs named "node" and "demo" on the PATH (Node.js is called node too).
link_package() {
  local site_packages share="$venv/share" name
  # What `ros2 run` and `ros2 launch` would start; the same names as in setup.py.
  local programs='node:robot_llm.ros.main ask:robot_llm.cli.ask demo:robot_llm.cli.demo
    evaluate:robot_llm.evaluation.main monitor:robot_llm.cli.monitor
    bench:robot_llm.bench.main'
  if is_done links "$root $programs" && [[ -e $venv/lib/robot_llm/node ]]; then return; fi
  site_packages=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  ln -sfn "$root/robot_llm" "$site_packages/robot_llm"
  mkdir -p "$share/robot_llm" "$share/ament_index/resource_index/packages" "$venv/lib/robot_llm"
  for name in launch config package.xml; do
    ln -sfn "$root/$name" "$share/robot_llm/$name"
  done
  ln -sfn "$root/resource/robot_llm" "$share/ament_index/resource_index/packages/robot_llm"
  for name in $programs; do
    printf '#!%s\nimport sys\nfrom %s import main\nsys.exit(main())\n' \
      "$venv/bin/python" "${name#*:}" >"$venv/lib/robot_llm/${name%%:*}"
    chmod +x "$venv/lib/robot_llm/${name%%:*}"
  done
  mark_done links "$root $programs"
}

build_with_colcon() {
  local wanted
  local -a files
  mapfile -t files < <(cd "$root" && find robot_llm robot_llm_msgs launch config resource setup.py \
    setup.cfg package.xml colcon_defaults.yaml -type f ! -name '*.pyc' ! -name '*.rst' | LC_ALL=C sort)
  wanted=$(cd "$root" && hash_of "${files[@]}")
  if is_done interfaces "$wanted" && [[ -f $root/install/setup.bash ]]; then return; fi
  "$venv/bin/python" -c 'import colcon_core, colcon_ros' 2>/dev/null \
    || run_step 'installing colcon' pip_install colcon-common-extensions
  # setuptools copies a module only if it is newer than the copy, and never takes one away. The
  # Python package is built in two seconds; begin afresh.
  rm -rf "$root/build/robot_llm" "$root/install/robot_llm"
  # CMake refuses a build folder that was made for another place: this checkout was moved or copied.
  grep -qsxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root/robot_llm_msgs" \
    "$root/build/robot_llm_msgs/CMakeCache.txt" \
    || rm -rf "$root/build/robot_llm_msgs" "$root/install/robot_llm_msgs"
  run_step 'building both packages with colcon' run_colcon
  mark_done interfaces "$wanted"
}

# The programs that colcon installs begin with "#!" and the interpreter that ran setup.py. The
# `colcon` command is the system's: with it they would start outside .venv and miss llama_cpp. So
# colcon runs as a module of .venv's interpreter; and setup.py asks for an active virtual
# environment's interpreter, for whoever types plain `colcon build`.
run_colcon() {
  cd "$root" && VIRTUAL_ENV=$venv PATH=$venv/bin:$PATH "$venv/bin/python" -m colcon build \
    --event-handlers console_direct+ --cmake-args -DBUILD_TESTING=OFF \
    "-DPython3_EXECUTABLE=$venv/bin/python"
}
