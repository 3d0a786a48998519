//! Where a process runs: on which host, in which job, as which rank. The job and the rank are what
//! schedulers and launchers of MPI programs say in the environment.

use std::sync::LazyLock;

use super::environment;

/// Variables with the rank of a process. The launcher that is nearest to the program comes first:
/// `mpirun` in a step of a scheduler starts ranks of its own.
const RANKS: [&str; 5] = [
    "OMPI_COMM_WORLD_RANK",
    "PMIX_RANK",
    "PMI_RANK",
    "PALS_RANKID",        // mpiexec of PBS on Cray's machines
    "JSM_NAMESPACE_RANK", // jsrun of LSF
];

/// A longer id is cut.
const ID_MAX: usize = 256;

/// Where a process runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Whereabouts {
    /// The machine's name.
    pub host: String,
    /// Id of the job, with that of its task in an array; `None` outside of jobs.
    pub job: Option<String>,
    /// Rank in an MPI program or a step of a scheduler.
    pub rank: Option<u32>,
}

impl Whereabouts {
    /// Of this process.
    pub fn own() -> Whereabouts {
        Whereabouts::of(|name| std::env::var(name).ok())
    }

    /// Of a process that runs on this machine with this environment.
    pub fn of_environment(environment: &[u8]) -> Whereabouts {
        let variables: Vec<(&str, &str)> = environment
            .split(|byte| *byte == 0)
            .filter_map(|variable| std::str::from_utf8(variable).ok()?.split_once('='))
            .collect();
        Whereabouts::of(|wanted| {
            let (_, value) = variables.iter().find(|(name, _)| *name == wanted)?;
            Some((*value).to_owned())
        })
    }

    /// Of a process without a probe; one that is gone has a host only.
    pub fn of_process(pid: u32) -> Whereabouts {
        Whereabouts::of_environment(&environment::environment(pid))
    }

    fn of(variable: impl Fn(&str) -> Option<String>) -> Whereabouts {
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        Whereabouts { host: host().to_owned(), job: job(&variable), rank: rank(&variable) }
    }
}

/// The name of this machine.
pub fn host() -> &'static str {
    static HOST: LazyLock<String> = LazyLock::new(|| {
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        name.trim().to_owned()
    });
    &HOST
}

/// As the scheduler itself writes the id; without a scheduler, as `mpirun` calls its job.
fn job(variable: &impl Fn(&str) -> Option<String>) -> Option<String> {
    let found = slurm(variable).or_else(|| variable("PBS_JOBID")).or_else(|| lsf(variable));
    let id = found.or_else(|| variable("PMIX_NAMESPACE"))?;
    Some(id.chars().take(ID_MAX).collect())
}

/// `JOB`, or `JOB_TASK` of an array.
fn slurm(variable: &impl Fn(&str) -> Option<String>) -> Option<String> {
    match variable("SLURM_ARRAY_JOB_ID").zip(variable("SLURM_ARRAY_TASK_ID")) {
        Some((array, task)) => Some(format!("{array}_{task}")),
        None => variable("SLURM_JOB_ID"),
    }
}

/// `JOB`, or `JOB[TASK]` of an array: the index of a job that is none is 0.
fn lsf(variable: &impl Fn(&str) -> Option<String>) -> Option<String> {
    let job = variable("LSB_JOBID")?;
    match variable("LSB_JOBINDEX").filter(|index| index != "0") {
        Some(index) => Some(format!("{job}[{index}]")),
        None => Some(job),
    }
}

fn rank(variable: &impl Fn(&str) -> Option<String>) -> Option<u32> {
    // A batch script has SLURM_PROCID too, and is no step.
    let number = |name: &str| variable(name)?.parse().ok();
    let of_step = || variable("SLURM_STEP_ID").and_then(|_| number("SLURM_PROCID"));
    RANKS.iter().find_map(|name| number(name)).or_else(of_step)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(variables: &[&str]) -> (Option<String>, Option<u32>) {
        let Whereabouts { job, rank, host: name } =
            Whereabouts::of_environment(variables.join("\0").as_bytes());
        assert_eq!(name, host());
        (job, rank)
    }

    #[test]
    fn a_job_has_the_id_that_its_scheduler_writes() {
        let job = |variables: &[&str]| found(variables).0.unwrap_or_default();
        assert_eq!(job(&["SLURM_JOB_ID=7", "PBS_JOBID=1.x"]), "7");
        let array = ["SLURM_JOB_ID=9", "SLURM_ARRAY_JOB_ID=7", "SLURM_ARRAY_TASK_ID=2"];
        assert_eq!(job(&array), "7_2");
        assert_eq!(job(&["PBS_JOBID=12[3].server"]), "12[3].server");
        assert_eq!(job(&["LSB_JOBID=5", "LSB_JOBINDEX=0"]), "5");
        assert_eq!(job(&["LSB_JOBID=5", "LSB_JOBINDEX=3"]), "5[3]");
        assert_eq!(job(&["PMIX_NAMESPACE=77", "SLURM_JOB_ID="]), "77");
        assert_eq!(found(&["HOME=/x"]), (None, None));
        assert_eq!(job(&[&format!("PBS_JOBID={}", "é".repeat(1000))]).chars().count(), ID_MAX);
    }

    #[test]
    fn the_launcher_nearest_to_the_program_says_its_rank() {
        let rank = |variables: &[&str]| found(variables).1;
        assert_eq!(rank(&["SLURM_PROCID=0", "SLURM_STEP_ID=1", "OMPI_COMM_WORLD_RANK=3"]), Some(3));
        assert_eq!(rank(&["SLURM_PROCID=4", "SLURM_STEP_ID=1"]), Some(4));
        assert_eq!(rank(&["SLURM_PROCID=0"]), None, "a batch script");
        assert_eq!(rank(&["PMI_RANK=5"]), Some(5));
        assert_eq!(rank(&["PMI_RANK=x", "SLURM_PROCID=4", "SLURM_STEP_ID=1"]), Some(4));
        for wrong in ["PMI_RANK=-1", "PMI_RANK=x", "PMI_RANK=99999999999"] {
            assert_eq!(rank(&[wrong]), None, "{wrong}");
        }
    }
}
