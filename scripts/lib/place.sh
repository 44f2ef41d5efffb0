# shellcheck shell=bash
# For scripts/setup and scripts/env, that is for bash and zsh.

# _robot_llm_is_made_in VENV: whether the virtual environment was made in this place. The programs in
# bin/ name their interpreter by its full path: in a checkout that was moved or copied they would
# start the other one's, or none. pip writes the path behind "#!", or behind "exec" where it is long.
_robot_llm_is_made_in() {
  grep -qsF -e "#!$1/bin/python" -e "exec' $1/bin/python" "$1/bin/pip"
}
