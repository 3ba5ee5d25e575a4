//! Tests the examples of sweeps on many machines. They run as on a cluster: with the files in `examples/`, shard by
//! shard, with the scheduler's environment variables. The merged result must equal that of one machine.
#![cfg(target_os = "linux")]

use crate::running::{Scratch, anabranch, errors, run};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// A plan of nine points, with an expectation that some of them miss.
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

/// Creates a directory with the plan, and with the program and a stub of `srun` in the PATH. Also returns the result of
/// a sweep on one machine, with the plan file that `plan` names.
fn prepare_sweep(name: &str, plan: impl Fn(&Scratch) -> String) -> (Scratch, String) {
    let place = Scratch::new(name);
    place.file("plan.toml", PLAN);
    fs::create_dir(place.0.join("bin")).expect("made");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_anabranch"), place.0.join("bin/anabranch"))
        .expect("linked");
    // The real `srun` of Slurm runs its command on the machines it has selected.
    let srun = place.file("bin/srun", "#!/bin/sh\nexec \"$@\"\n");
    run(Command::new("chmod").arg("+x").arg(srun));
    let plan = plan(&place);
    let whole = run(anabranch().current_dir(&place.0).args(["race", &plan, "--quiet", "--out", "single"]));
    assert_eq!(whole.status.code(), Some(1), "an expectation is missed: {}", errors(&whole));
    let whole = fs::read_to_string(place.0.join("single/results.json")).expect("results");
    (place, whole)
}

/// Runs a script as a machine of the cluster would run it.
fn typed(place: &Scratch, script: &str, set: &[(&str, String)]) -> Output {
    let path = format!("{}:{}", place.0.join("bin").display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("bash");
    shell.current_dir(&place.0).env("PATH", path).args(["-c", script]);
    run(shell.envs(set.iter().map(|(key, value)| (key, value))))
}

/// Checks that the shards can be merged, and that the merged result equals the result of one machine.
fn merges(place: &Scratch, script: &str, whole: &str) {
    let merged = typed(place, script, &[]);
    assert_eq!(merged.status.code(), Some(1), "an expectation is missed: {}", errors(&merged));
    let found = fs::read_to_string(place.0.join("whole/results.json")).expect("results");
    assert!(found == whole, "other results than those of one machine");
}

#[test]
fn a_slurm_array() {
    let (place, whole) = prepare_sweep("slurm", |_| "plan.toml".to_owned());
    let script = example("slurm-array.sh");
    let tasks = script.lines().find_map(|line| line.strip_prefix("#SBATCH --array=1-")).expect("an array");
    let tasks: u32 = tasks.parse().expect("a number");
    place.file("array.sh", script);
    for task in 1..=tasks {
        let set = [("SLURM_ARRAY_TASK_ID", task.to_string())];
        let done = typed(&place, "bash array.sh plan.toml shards", &set);
        assert!(done.status.code() <= Some(1), "{}", errors(&done));
    }
    merges(&place, "anabranch merge shards/* -o whole", &whole);
}

#[test]
fn an_indexed_job_of_kubernetes() {
    let (place, whole) = prepare_sweep("kubernetes", |place| place.0.join("plan.toml").display().to_string());
    let job = example("kubernetes-job.yaml");
    let line =
        |begin: &str| job.lines().find_map(|line| line.trim().strip_prefix(begin)).expect("in the job");
    let pods: u32 = line("completions: ").parse().expect("a number");
    let data = place.0.display().to_string();
    let command = format!("anabranch {}", line("- anabranch ").replace("/data", &data));
    for pod in 0..pods {
        let done = typed(&place, &command, &[("JOB_COMPLETION_INDEX", pod.to_string())]);
        assert!(done.status.code() <= Some(1), "{}", errors(&done));
    }
    merges(&place, "anabranch merge shard-* -o whole", &whole);
}

#[test]
fn a_matrix_of_ci() {
    let (place, whole) = prepare_sweep("matrix", |_| "plan.toml".to_owned());
    let jobs = example("ci-matrix.yml");
    let runs: Vec<&str> = jobs.lines().filter_map(|line| line.trim().strip_prefix("- run: ")).collect();
    let [race, merge] = runs[..] else { panic!("{runs:?}") };
    assert!(jobs.contains("shard: [1, 2, 3, 4]"), "the matrix");
    for shard in 1..=4 {
        let done = typed(&place, &race.replace("${{ matrix.shard }}", &shard.to_string()), &[]);
        assert_eq!(done.status.code(), Some(0), "{}", errors(&done));
        // The directory is renamed as CI renames it when it passes artifacts between jobs.
        fs::rename(place.0.join("shard"), place.0.join(format!("shard-{shard}"))).expect("moved");
    }
    merges(&place, merge, &whole);
}
