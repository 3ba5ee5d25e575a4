# Shared by `run` and `full`: settings, the installation of packages, and the time of each step.
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export CARGO_TERM_COLOR=never CARGO_INCREMENTAL=0
# One target directory for all workspaces: shared dependencies are built once.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}
# A missing peer or decoder fails a test here instead of skipping it.
export ANABRANCH_REQUIRE_PEERS=1
# The directories in which Debian installs programs for root.
export PATH="$PATH:/usr/sbin:/sbin"

# install COMMAND:PACKAGE.. installs the Debian packages whose command is missing.
install() {
  local need missing=()
  for need in "$@"; do
    command -v "${need%%:*}" >/dev/null 2>&1 || missing+=("${need#*:}")
  done
  [ "${#missing[@]}" -gt 0 ] || return 0
  echo "installing ${missing[*]}"
  apt-get update -q >/dev/null
  DEBIAN_FRONTEND=noninteractive apt-get install -yq --no-install-recommends "${missing[@]}" >/dev/null
}

step_name='' step_wall=0 step_cpu=0 report='' cpu=0 clock=$(mktemp)
trap 'rm -f "$clock"' EXIT
# Sets `cpu` to the processor seconds of all commands that have ended. Not in a subshell, where `times` starts at
# zero.
read_cpu() {
  times >"$clock"
  cpu=$(awk 'NR == 2 { split($1 " " $2, part, /[ms ]+/); printf "%d", part[1] * 60 + part[2] + part[3] * 60 + part[4] }' "$clock")
}
# step NAME starts a step, and prints the time of the previous one.
step() {
  end_step
  step_name=$1 step_wall=$SECONDS step_cpu=$cpu
  printf '\n== %s\n' "$step_name"
}
end_step() {
  read_cpu
  [ -n "$step_name" ] || return 0
  local line
  line=$(printf '%5d s, %5d CPU s  %s' $((SECONDS - step_wall)) $((cpu - step_cpu)) "$step_name")
  echo "-- $line"
  report+="$line"$'\n'
  step_name=''
}
# summary prints the time of every step, at the end.
summary() {
  end_step
  printf '\n%s%5d s, %5d CPU s  in all\n' "$report" "$SECONDS" "$cpu"
}
