#!/bin/bash
# A sweep as a Slurm job array: each task runs one shard of a plan and goes on with it when it is started again.
#
#   job=$(sbatch --parsable examples/slurm-array.sh plan.toml shards)
#   sbatch --dependency=afterany:$job --wrap 'anabranch merge shards/* -o whole'
#
# A task ends with 1 where an [[expect]] is missed or a transfer failed; its shard is complete all the same.
#SBATCH --array=1-8
#SBATCH --requeue
#SBATCH --cpus-per-task=2
set -euo pipefail
# As many as the array has, also when some of them are submitted again.
shards=8
plan=${1:?usage: slurm-array.sh PLAN DIR} out=${2:?usage: slurm-array.sh PLAN DIR}
srun anabranch race "$plan" --quiet --shard "$SLURM_ARRAY_TASK_ID/$shards" --resume "$out/$SLURM_ARRAY_TASK_ID"
