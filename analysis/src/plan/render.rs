//! A plan in the words of the program that will follow it.

use super::answer::Plan;

/// Who is to follow the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// A tuple of tuples for `array.rechunk(...)` or `chunks=`.
    Dask,
    /// The `chunks=` of a DASF dataset.
    Dasf,
    /// `#SBATCH` lines: one Slurm task per worker.
    Slurm,
    /// The resources of a container that runs one worker.
    Kubernetes,
    /// Environment variables; they reach only arrays whose chunks are `auto`.
    Env,
}

impl Plan {
    /// The plan as text for a target, without a final newline.
    pub fn render(&self, target: Target) -> String {
        match target {
            Target::Dask => tuple(self.chunks.iter().map(|sizes| tuple(sizes.iter().map(u64::to_string)))),
            Target::Dasf => format!("chunks={}", tuple(self.chunk_shape.iter().map(u64::to_string))),
            Target::Slurm => format!(
                "{}#SBATCH --ntasks={}\n#SBATCH --cpus-per-task={}\n#SBATCH --mem-per-cpu={}M{}",
                self.swap_line(),
                self.workers,
                self.threads_per_worker,
                self.needed_limit_bytes().div_ceil(self.threads_per_worker).div_ceil(1 << 20),
                self.device.map_or("", |_| "\n#SBATCH --gpus-per-task=1"),
            ),
            Target::Kubernetes => {
                let (cpu, mebibytes) = (self.threads_per_worker, self.needed_limit_bytes().div_ceil(1 << 20));
                let gpu = self.device.map_or("", |_| "\n    nvidia.com/gpu: 1");
                let both = format!("    cpu: \"{cpu}\"\n    memory: \"{mebibytes}Mi\"{gpu}");
                format!("{}resources:\n  requests:\n{both}\n  limits:\n{both}", self.swap_line())
            }
            Target::Env => format!("export DASK_ARRAY__CHUNK_SIZE={}B", self.chunk_bytes()),
        }
    }

    /// A comment on what limits of these targets do not grant.
    fn swap_line(&self) -> String {
        self.slow.map_or(String::new(), |slow| {
            let mebibytes = slow.predicted_moved_bytes.div_ceil(1 << 20);
            format!("# Each worker needs {mebibytes} MiB of swap, too: without it, it is killed.\n")
        })
    }

    /// The memory limit whose usable part is what a worker is predicted to need of it.
    fn needed_limit_bytes(&self) -> u64 {
        let usable = self.budget_bytes as f64 / self.memory_limit_bytes as f64;
        (self.predicted_worker_bytes.min(self.budget_bytes) as f64 / usable).ceil() as u64
    }

    fn chunk_bytes(&self) -> u64 {
        self.chunk_shape.iter().fold(self.item_bytes, |product, &n| product.saturating_mul(n))
    }
}

/// A Python tuple; the one of a single element keeps its comma.
fn tuple(items: impl Iterator<Item = String>) -> String {
    let items: Vec<String> = items.collect();
    match items.as_slice() {
        [only] => format!("({only},)"),
        _ => format!("({})", items.join(", ")),
    }
}
