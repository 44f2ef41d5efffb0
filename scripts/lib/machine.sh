# shellcheck shell=bash disable=SC2154  # variables of scripts/setup
# What this machine is: a ROS 2 that is sourced, a Python that fits, a compiler, room on the disk.

# The folder's name comes into "#!" lines, into lists of paths, and into commands and CMake files of
# rosidl that quote nothing and read ASCII alone.
check_root() {
  local found
  found=$(LC_ALL=C grep -o '[^A-Za-z0-9/._+=@~-]\+' <<<"$root" | sort -u | tr -d '\n') || return 0
  fail 'looking at the folder of this checkout' \
    "$root has [$found] in it, and neither \"#!\" lines nor the build of ROS interfaces can do with that" \
    'move the checkout to a folder whose path has only the letters a to z, digits and ./_+=@~- in it'
}

# The first prefix of AMENT_PREFIX_PATH that is a ROS installation. A .venv is one too once
# scripts/env was sourced, ours or another checkout's, and must not be taken for one.
sourced_ros() {
  local prefix
  local -a prefixes
  IFS=: read -ra prefixes <<<"${AMENT_PREFIX_PATH:-}"
  for prefix in ${prefixes[@]+"${prefixes[@]}"}; do
    [[ $prefix == "$root"/* || -f $prefix/pyvenv.cfg ]] && continue
    [[ -d $prefix/share/rclpy ]] && printf '%s\n' "$prefix" && return
  done
  return 1
}

# describe_python COMMAND: "3.11 /path/of/python3.11", links resolved, of the interpreter behind a
# venv: inside and outside of an active .venv the same, or .venv would be remade at every change.
describe_python() {
  "$1" -c 'import os, sys
base = getattr(sys, "_base_executable", None) or sys.executable
print("%d.%d" % sys.version_info[:2], os.path.realpath(base))' 2>/dev/null
}

# A forgotten `. /opt/ros/<distro>/setup.bash` must not replace a robot's .venv by one of wheels.
keep_to_ros() {
  [[ $mode == ros || ! -f $venv/.setup/mode || $(<"$venv/.setup/mode") != ros ]] || fail \
    'looking for ROS 2' 'this checkout was set up for a ROS 2 installation, and none is sourced' \
    'source it (. /opt/ros/<distro>/setup.bash), or remove .venv to use ROS 2 from wheels'
}

is_supported() { [[ $1 =~ ^3\.1[0-3]$ ]]; }

# Sets python (an absolute path) and python_version ("3.11").
choose_python() {
  if [[ $mode == ros ]]; then choose_ros_python; else choose_plain_python; fi
}

choose_plain_python() {
  local name found='' asked=${ROBOT_LLM_PYTHON:-}
  # python3 first: whoever made a Python the machine's default means it.
  for name in ${asked:-python3 python3.13 python3.12 python3.11 python3.10}; do
    command -v "$name" >/dev/null || continue
    read -r python_version python <<<"$(describe_python "$name")"
    [[ -n $python ]] || continue
    is_supported "$python_version" && return
    found+="${found:+, }$name is $python_version"
  done
  fail 'choosing a Python' "Python 3.10 to 3.13 is needed; ${found:-${asked:-python3} was not found}" \
    'install one of them, or name it: ROBOT_LLM_PYTHON=/path/to/python3.12 scripts/setup'
}

# The interpreter that ROS was built for, or rclpy's compiled modules cannot be imported.
choose_ros_python() {
  local name
  for name in "${ROBOT_LLM_PYTHON:-}" python3 /usr/bin/python3; do
    [[ -n $name ]] && command -v "$name" >/dev/null || continue
    # -B -E is not used: PYTHONPATH is how a sourced ROS is found.
    "$name" -c 'import rclpy' 2>/dev/null || continue
    read -r python_version python <<<"$(describe_python "$name")"
    is_supported "$python_version" && return
  done
  fail 'choosing the Python of ROS 2' "ROS 2 is sourced ($ros_prefix), but no python3 can import its rclpy" \
    'install ros-<distro>-rclpy, or name the interpreter: ROBOT_LLM_PYTHON=/usr/bin/python3; or open a shell without ROS'
}

check_architecture() {
  [[ $mode == ros || $(uname -sm) == 'Linux x86_64' ]] || fail 'looking for ROS 2' \
    "no ROS 2 is sourced, and its wheels exist for Linux on x86-64 only; this is $(uname -sm)" \
    'install ROS 2 (Humble on JetPack 6, Jazzy on JetPack 7) and source it: . /opt/ros/<distro>/setup.bash'
}

check_compiler() {
  local name
  for name in "${CXX:-}" c++ g++ clang++; do
    [[ -n $name ]] && command -v "${name%% *}" >/dev/null && return
  done
  fail 'looking for a compiler' 'neither g++ nor clang++ is on the PATH' \
    'install one (Debian, Ubuntu: sudo apt install g++)'
}

# What Debian and Ubuntu leave out of their python3 package.
check_python_parts() {
  local install="install them (Debian, Ubuntu: sudo apt install python$python_version-venv python$python_version-dev)"
  "$python" -c 'import ensurepip, venv' 2>/dev/null || fail 'looking at the Python' \
    "$python cannot make virtual environments: its modules venv and ensurepip are missing" "$install"
  [[ -f $("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h ]] \
    || fail 'looking at the Python' "the headers (Python.h) of $python are missing" "$install"
}

# check_room FOLDER MEGABYTES: before the hour is spent, not after.
check_room() {
  local folder=$1 free
  until [[ -d $folder ]]; do folder=$(dirname "$folder"); done
  free=$(df -Pm "$folder" | awk 'NR == 2 { print $4 }')
  [[ $free =~ ^[0-9]+$ ]] || return 0
  ((free >= $2)) || fail 'checking the disk' "$2 MB are needed in $1, $free MB are free" \
    'free some space, or set ROBOT_LLM_CACHE and TMPDIR to a larger disk'
}
