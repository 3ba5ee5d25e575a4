"""For which share of people is which transport better? The plan beside this file on a cluster of Dask, and its page.

    python examples/population.py OUT [PEOPLE]      # 1000 people by default; 100000 are a million page loads a transport

Workers need the package `anabranch[sweep]`. For a cluster of Slurm or Kubernetes take that of sweep.py.
"""

import sys
from pathlib import Path

import anabranch
from distributed import Client, LocalCluster

if __name__ == "__main__":
    out, people = [*sys.argv[1:], "1000"][:2]
    plan = Path(__file__).with_name("population.toml")
    with LocalCluster(threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        swept = anabranch.sweep(plan, out=out, client=client, tables=("summary", "comparisons", "causes"), people=people)
    found = swept.people()
    found.report(Path(out, "people.html"))
    print(found)
