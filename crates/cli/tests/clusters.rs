//! Tests the examples of sweeps on many machines. They run as on a cluster: with the files in `examples/`, shard by
//! shard, with the scheduler's environment variables. The merged result must equal that of one machine.
#![cfg(target_os = "linux")]

use crate::running::{Scratch, anabranch, errors, run};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// A plan of nine points. It has an expectation that does not hold at some of these points.
const PLAN: &str = r#"
rtt = ["10ms", "40ms", "90ms"]
loss = ["0", "2%", "4%"]
objects = "2x10kB"
runs = 2
transport = ["tcp", "sctp"]
causes = "off"

[[expect]]
of = "sctp"
versus = "tcp"
ratio_max = 0.99
"#;

fn example(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Creates a directory with the plan, the program and a stub of `srun`. Runs a sweep on one machine, with the plan file
/// whose name `plan` returns. Returns the directory and the sweep's result.
fn prepare_sweep(name: &str, plan: impl Fn(&Scratch) -> String) -> (Scratch, String) {
    let scratch = Scratch::new(name);
    scratch.file("plan.toml", PLAN);
    fs::create_dir(scratch.0.join("bin")).expect("made");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_anabranch"), scratch.0.join("bin/anabranch"))
        .expect("linked");
    // This replacement for `srun` runs its command on this machine. The real `srun` of Slurm runs its command on the
    // machines that it has selected.
    let srun = scratch.file("bin/srun", "#!/bin/sh\nexec \"$@\"\n");
    run(Command::new("chmod").arg("+x").arg(srun));
    let plan = plan(&scratch);
    let whole = run(anabranch().current_dir(&scratch.0).args(["race", &plan, "--quiet", "--out", "single"]));
    assert_eq!(whole.status.code(), Some(1), "an expectation is missed: {}", errors(&whole));
    let whole = fs::read_to_string(scratch.0.join("single/results.json")).expect("results");
    (scratch, whole)
}

/// Runs a script with the environment variables `set`, as a machine of the cluster would.
fn typed(scratch: &Scratch, script: &str, set: &[(&str, String)]) -> Output {
    let path = format!("{}:{}", scratch.0.join("bin").display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("bash");
    shell.current_dir(&scratch.0).env("PATH", path).args(["-c", script]);
    run(shell.envs(set.iter().map(|(key, value)| (key, value))))
}

/// Runs `script`, which merges the results of several machines. The merged result must equal `whole`, the result of the
/// same sweep on one machine.
fn merges(scratch: &Scratch, script: &str, whole: &str) {
    let merged = typed(scratch, script, &[]);
    assert_eq!(merged.status.code(), Some(1), "an expectation is missed: {}", errors(&merged));
    let found = fs::read_to_string(scratch.0.join("whole/results.json")).expect("results");
    assert!(found == whole, "other results than those of one machine");
}

#[test]
fn a_slurm_array() {
    let (scratch, whole) = prepare_sweep("slurm", |_| "plan.toml".to_owned());
    let script = example("slurm-array.sh");
    let tasks = script.lines().find_map(|line| line.strip_prefix("#SBATCH --array=1-")).expect("an array");
    let tasks: u32 = tasks.parse().expect("a number");
    scratch.file("array.sh", script);
    for task in 1..=tasks {
        let set = [("SLURM_ARRAY_TASK_ID", task.to_string())];
        let done = typed(&scratch, "bash array.sh plan.toml shards", &set);
        assert!(done.status.code() <= Some(1), "{}", errors(&done));
    }
    merges(&scratch, "anabranch merge shards/* -o whole", &whole);
}

#[test]
fn an_indexed_job_of_kubernetes() {
    let (scratch, whole) =
        prepare_sweep("kubernetes", |scratch| scratch.0.join("plan.toml").display().to_string());
    let job = example("kubernetes-job.yaml");
    let line =
        |begin: &str| job.lines().find_map(|line| line.trim().strip_prefix(begin)).expect("in the job");
    let pods: u32 = line("completions: ").parse().expect("a number");
    let data = scratch.0.display().to_string();
    let command = format!("anabranch {}", line("- anabranch ").replace("/data", &data));
    for pod in 0..pods {
        let done = typed(&scratch, &command, &[("JOB_COMPLETION_INDEX", pod.to_string())]);
        assert!(done.status.code() <= Some(1), "{}", errors(&done));
    }
    merges(&scratch, "anabranch merge shard-* -o whole", &whole);
}

#[test]
fn a_matrix_of_ci() {
    let (scratch, whole) = prepare_sweep("matrix", |_| "plan.toml".to_owned());
    let jobs = example("ci-matrix.yml");
    let runs: Vec<&str> = jobs.lines().filter_map(|line| line.trim().strip_prefix("- run: ")).collect();
    let [race, merge] = runs[..] else { panic!("{runs:?}") };
    assert!(jobs.contains("shard: [1, 2, 3, 4]"), "the matrix");
    for shard in 1..=4 {
        let done = typed(&scratch, &race.replace("${{ matrix.shard }}", &shard.to_string()), &[]);
        assert_eq!(done.status.code(), Some(0), "{}", errors(&done));
        // Renames the directory as CI does when one job passes artifacts to the next.
        fs::rename(scratch.0.join("shard"), scratch.0.join(format!("shard-{shard}"))).expect("moved");
    }
    merges(&scratch, merge, &whole);
}
