"""A sweep on a cluster of Dask: this machine's, Slurm's by dask-jobqueue, or Kubernetes' by its operator.

    python examples/sweep.py plan.toml whole [local|slurm|kubernetes [JOBS]]

Workers need the package `anabranch[sweep]`; the scheduler keeps no results, and a shard whose worker died is run again.
"""

import sys

import anabranch
from distributed import Client


def cluster(kind: str, jobs: int):
    if kind == "slurm":
        from dask_jobqueue import SLURMCluster

        found = SLURMCluster(cores=2, processes=2, memory="4GB", walltime="01:00:00")
        found.scale(jobs=jobs)
        return found
    if kind == "kubernetes":
        from dask_kubernetes.operator import KubeCluster

        return KubeCluster(name="anabranch", image="registry.example/anabranch-dask", n_workers=jobs)
    from distributed import LocalCluster

    return LocalCluster(threads_per_worker=1, dashboard_address=None)


if __name__ == "__main__":
    plan, out, kind, jobs = [*sys.argv[1:], *("local", "16")[len(sys.argv) - 3 :]]
    with cluster(kind, int(jobs)) as workers, Client(workers) as client:
        swept = anabranch.sweep(plan, out=out, client=client, progress=lambda done, count: print(f"{done}/{count}"))
    print(swept.to_arrow("summary").num_rows, "rows in", swept.path)
