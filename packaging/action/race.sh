#!/usr/bin/env bash
# Races a plan and writes the result to the job's summary. The exit code is that of the race: 1 if an expectation is
# missed.
#
#   packaging/action/race.sh PROGRAM PLAN
#
# Without GITHUB_STEP_SUMMARY the summary goes to standard output.
set -euo pipefail
program=$1 plan=$2
summary=${GITHUB_STEP_SUMMARY:-/dev/stdout}
status=0
text=$("$program" race "$plan" --quiet 2>&1) || status=$?
{
  case $status in
    0) printf '### %s: as expected\n' "$plan" ;;
    1) printf '### %s: an expectation is missed, or a transfer failed\n' "$plan" ;;
    *) printf '### %s: not run\n' "$plan" ;;
  esac
  printf '\n```\n%s\n```\n' "$text"
} >> "$summary"
exit $status
