#!/usr/bin/env bash
# Checks what commands print on terminals of 80 and of 120 columns. No line may be longer than the terminal, which would
# break it within a word, and no command may break a word itself. Each command runs in a pane of tmux.
#
#   tests/terminal.sh PROGRAM
#
# Exit code 1: a line is too long, or a word is broken. Exit code 3: there is no tmux.
set -euo pipefail

program=$(realpath "${1:?usage: tests/terminal.sh PROGRAM}")
cd "$(dirname "$0")/.."
if ! command -v tmux >/dev/null; then
  echo "tests/terminal.sh: no tmux; the Debian package tmux has it" >&2
  exit 3
fi
scratch=$(mktemp -d)
tmux() { command tmux -S "$scratch/socket" -f "$scratch/conf" "$@"; }
trap 'tmux kill-server 2>/dev/null || true; rm -rf "$scratch"' EXIT
printf 'set -g history-limit 100000\nset -g remain-on-exit on\nset -g status off\n' >"$scratch/conf"

# screen COLUMNS NAME COMMAND runs a command on a terminal of this width. Writes the lines that the terminal shows to
# NAME.shown, and the lines that the command printed to NAME.printed, both without blanks at their ends and without empty
# lines.
screen() {
  local columns=$1 name=$scratch/$2.$1 command=$3
  tmux new-session -d -s "$2" -x "$columns" -y 50 \
    "$command; echo \$? >'$name.code'; tmux -S '$scratch/socket' wait-for -S '$2'"
  timeout 900 tmux -S "$scratch/socket" wait-for "$2"
  tmux capture-pane -p -S - -t "$2" | sed 's/ *$//; /^Pane is dead/d; /^$/d' >"$name.shown"
  tmux capture-pane -p -J -S - -t "$2" | sed 's/ *$//; /^Pane is dead/d; /^$/d' >"$name.printed"
  tmux kill-session -t "$2"
}

# The words of a file, each once. An ellipsis stands for the middle of a name that does not fit.
words() {
  tr -s ' ' '\n' <"$1" | grep -v '…' | sort -u
}

wrong=0
check() {
  local name=$1 command=$2 broken
  for columns in 80 120; do
    screen "$columns" "$name" "$command"
    if [ "$(cat "$scratch/$name.$columns.code")" != 0 ] || [ "$(wc -l <"$scratch/$name.$columns.shown")" -lt 3 ]; then
      echo "$name, $columns columns: failed" && wrong=1
      tail -n 3 "$scratch/$name.$columns.shown"
    fi
    if ! cmp -s "$scratch/$name.$columns.shown" "$scratch/$name.$columns.printed"; then
      echo "$name: lines of more than $columns columns:" && wrong=1
      comm -13 <(sort -u "$scratch/$name.$columns.shown") <(sort -u "$scratch/$name.$columns.printed")
    fi
  done
  # A word that the command itself has broken at 80 columns is whole at 120.
  broken=$(comm -23 <(words "$scratch/$name.80.printed") <(words "$scratch/$name.120.printed"))
  if [ -n "$broken" ]; then
    echo "$name: broken words at 80 columns:" "$broken" && wrong=1
  fi
  echo "$name: $(wc -l <"$scratch/$name.80.shown") lines at 80 columns, $(wc -l <"$scratch/$name.120.shown") at 120"
}

quoted=$(printf %q "$program")
"$program" race --quiet --runs 1 --bulk 1MB --loss 2% --transport tcp:rcvbuf=16KiB --out "$scratch/race" >"$scratch/race.txt"
check race "$quoted race --runs 20 --quiet"
check help "$quoted --help"
for verb in race study decode serve get load bulk gateway link; do
  check "help-$verb" "$quoted $verb --help"
done
cp "$scratch"/race/*.seed-1.server.pcapng.gz "$scratch/capture.pcapng.gz"
check decode-why "cd '$scratch'; $quoted decode capture.pcapng.gz --why"
check study-run "$quoted study run alternative-transport/init --quick --quiet"
exit "$wrong"
