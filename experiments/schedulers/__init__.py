"""Real schedulers that kill: jobs sized by laws, on a Slurm of one node that is this machine."""

PARTS = {
    "slurm": "an array of jobs sized by laws and by half of them; a SLURMCluster's chunks",
}
