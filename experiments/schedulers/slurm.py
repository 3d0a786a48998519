"""Jobs on a real Slurm: sized by laws, at half of that, sized by what finished; a SLURMCluster."""

import json
import math
import platform
import re
import statistics
import subprocess
import sys

from memtrace.sizing import Sizes

from experiments.chunks import small_laws
from experiments.recording import RESULTS, ROOT, written
from experiments.schedulers import cluster, mix, one_node
from experiments.schedulers.commands import in_bytes

PAGE = RESULTS / "slurm.md"
TRAINING = small_laws.TRAINING[:4]
#: What `finished` is told of a job that finished.
PEAKS = {"MaxRSS": lambda job: job.max_rss, "VmHWM": lambda job: job.peak}
#: Of a computation on a SLURMCluster.
LONGEST_SECONDS = 600
#: Requested over used, in the median.
MOST_REQUESTED = 1.25


def main(arguments):
    if reason := one_node.why_not():
        print(f"schedulers slurm: {reason}", file=sys.stderr)
        return False
    mixed = mix.jobs(arguments.quick)
    models = {name: small_laws.fitted(name, TRAINING) for name, _ in mixed}
    requests = requested(models, mixed)
    with one_node.slurm() as slurm:
        version = slurm.run("sbatch", "--version").split()[-1]
        by_law = mix.run(slurm, mixed, requests)
        arrays = {"half": mix.run(slurm, mixed, [request // 2 for request in requests])}
        for name, peak in PEAKS.items():
            known = [job for job in by_law if job.has_finished and peak(job)]
            peaks = [(job.operator, job.shape, peak(job)) for job in known]
            arrays[name] = mix.run(slurm, mixed, requested(models, mixed, peaks))
        ways = {way: on_cluster(slurm, way) for way in ("auto", "recommended")}
    checks = checked(by_law, arrays["half"], ways)
    for check in checks:
        print(check)
    if not arguments.quick:
        PAGE.write_text(text(version, by_law, arrays, ways, checks), encoding="utf-8")
    return all(held for *_, held in checks)


def requested(models, mixed, peaks=()):
    """Requests for jobs after others have finished with these peaks."""
    sizes = {name: Sizes(model) for name, model in models.items()}
    for name, shape, peak in peaks:
        sizes[name].finished(name, shape, peak)
    return [sizes[name].request(name, shape) for name, shape in mixed]


def on_cluster(slurm, way):
    """How GST3D on a SLURMCluster ended."""
    paths = {"PYTHONPATH": f"{ROOT}:{ROOT / 'examples'}:{ROOT / 'python'}"}
    done = subprocess.run(
        [sys.executable, "-m", "experiments.schedulers.cluster", way],
        cwd=ROOT,
        env=slurm.environment | paths,
        capture_output=True,
        text=True,
        check=False,
        timeout=LONGEST_SECONDS,
    )
    if done.returncode:
        raise RuntimeError(f"the SLURMCluster with {way} chunks failed:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def ratios(jobs):
    """Requested over used."""
    return [job.request / job.peak for job in jobs if job.has_finished]


def median(values):
    """Of no values it is nan, for which no claim holds."""
    return statistics.median(values) if values else math.nan


def checked(by_law, halved, ways):
    """What is claimed: what, target, measured, whether it holds."""
    finished = sum(job.has_finished for job in by_law)
    over = median(ratios(by_law))
    killed = sum(job.was_killed for job in halved)
    auto, ours = ways["auto"], ways["recommended"]
    died = f"{auto['error']}" if auto["error"] else "finished"
    ended = ours["error"] or f"finished, {ours['killed']} workers killed"
    return [
        ("an array of jobs that request the law's bytes: finished", f"all of {len(by_law)}",
         finished, finished == len(by_law)),
        ("requested / used, median", f"at most {MOST_REQUESTED}", f"{over:.2f}",
         over <= MOST_REQUESTED),
        ("the same at half of the law's bytes: killed for their memory", f"all of {len(halved)}",
         killed, killed == len(halved)),
        ('a SLURMCluster with `chunks="auto"`', "dies", died, bool(auto["error"])),
        ("the same with the chunks of `memtrace.dask.recommend`", "finishes, no worker killed",
         ended, not ours["error"] and not ours["killed"]),
    ]  # fmt: skip


def text(version, by_law, arrays, ways, checks):
    rows = [
        f"| {what} | {target} | {measured} | {'yes' if held else 'no'} |"
        for what, target, measured, held in checks
    ]
    finished = [job for job in by_law if job.has_finished]
    peaks = [job.peak / 1e6 for job in finished]
    missed = [1 - in_bytes(job.max_rss) / job.peak for job in finished]
    return TEXT.format(
        version=version,
        kernel=re.match(r"\d+\.\d+", platform.release())[0],
        checks="\n".join(rows),
        number=len(by_law),
        operators=len({job.operator for job in by_law}),
        training=", ".join(map(written, TRAINING)),
        least=min(peaks, default=math.nan),
        most=max(peaks, default=math.nan),
        largest=max(ratios(by_law), default=math.nan),
        missed=median(missed),
        most_missed=max(missed, default=math.nan),
        learned="\n".join(after_finished(name, by_law, arrays[name]) for name in PEAKS),
        head=f"| {' | '.join(COLUMNS)} |\n{'|---' * len(COLUMNS)}|",
        jobs="\n".join(map(line, by_law, *arrays.values())),
        **on_two_jobs(ways),
    )


def on_two_jobs(ways):
    auto, ours = ways["auto"], ways["recommended"]
    return {
        "cluster_jobs": cluster.JOBS,
        "memory": cluster.MEMORY,
        "shape": written(cluster.SHAPE),
        "auto": written(auto["chunk_shape"]),
        "died": auto["error"],
        "ours": written(ours["chunk_shape"]),
        "predicted": ours["predicted_bytes"] / 1e6,
        "peak": ours["peak_bytes"] / 1e6,
        "seconds": ours["seconds"],
    }


def after_finished(name, by_law, learned):
    """Requests that follow peaks of finished jobs: over what is used, and kills."""
    jobs = zip(learned, by_law, strict=True)
    over = median([job.request / known.peak for job, known in jobs if known.has_finished])
    return f"| {name} | {over:.2f} | {sum(job.was_killed for job in learned)} |"


def line(by_law, halved, by_max_rss, by_peak):
    sizes = (by_law.peak, in_bytes(by_law.max_rss), by_law.request)
    cells = [by_law.operator, written(by_law.shape), *(f"{size / 1e6:.0f}" for size in sizes)]
    cells += [f"{by_law.request / by_law.peak:.2f}" if by_law.peak else "", by_law.state]
    cells += [halved.state]
    for learned in (by_max_rss, by_peak):
        cells += [f"{learned.request / 1e6:.0f}", learned.state]
    return "| " + " | ".join(cells) + " |"


COLUMNS = ("operator", "shape", "used, MB", "MaxRSS, MB", "requested, MB", "requested / used")
COLUMNS += ("ended", "at half", "by MaxRSS, MB", "ended", "by VmHWM, MB", "ended")

TEXT = """\
# Jobs on Slurm

`scripts/experiments schedulers slurm` writes this page.

| what | target | measured | holds |
|---|---|---|---|
{checks}

Slurm {version} of Debian on one node (Linux {kernel}), started for the study: slurmctld,
slurmd, slurmdbd and munged. Control groups hold a job to its request, without swap
(`task/cgroup`, `ConstrainRAMSpace`, `ConstrainSwapSpace`), and Slurm samples its memory once a
second (`jobacct_gather/cgroup`).

## An array of jobs

{number} jobs of {operators} operators ({least:.0f} to {most:.0f} MB), each a fresh Python in its
batch script; laws are fitted on one process each at {training}.
A request is `memtrace.sizing.Sizes.request`: the law's `resident_upper_bytes`. All tasks of an
array have the same `--mem`, so the array is submitted with `--hold`, `scontrol update
JobId=ARRAY_TASK MinMemoryNode=MIB` sets the request of each task, and `scontrol release` starts
them. The largest requested / used is {largest:.2f}. *Used* is VmHWM, as the job itself reads it at
its end.

## After jobs have finished

The same array once more, after `Sizes.finished` with the peak of each job of the first one: the
`MaxRSS` that sacct has of it, or its VmHWM.

| peak | requested / used, median | killed, of {number} |
|---|---|---|
{learned}

`MaxRSS` is the largest sample: it is {missed:.0%} below VmHWM in the median, {most_missed:.0%} at
most. Pages of files do not count in it, and what comes and goes between two samples is not seen;
other clusters sample every 30 s, Slurm's default. So report VmHWM, or what `/usr/bin/time -f %MK`
prints, rather than `MaxRSS`. After a kill the law's bound is in force again.

## All jobs

{head}
{jobs}

## A SLURMCluster

GST3D of {shape} on `dask_jobqueue.SLURMCluster(cores=1, memory="{memory}")` with
{cluster_jobs} jobs, the SEG-Y volume read chunk by chunk, the result's mean. A worker that is
killed fails the computation (`allowed-failures: 0`). With `chunks="auto"` ({auto}) it ends
with {died}. With the chunks of `memtrace.dask.recommend` on the running cluster
({ours}) it takes {seconds:.1f} s; the larger worker peaks at {peak:.0f} MB, predicted
{predicted:.0f} MB.
"""
