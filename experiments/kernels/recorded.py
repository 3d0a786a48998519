"""What a guest records: programs that know what memtrace must say of them. The traces come back."""

from experiments.guest import guest, initramfs
from experiments.guest.machine import AMD64
from experiments.recording import ROOT

TARGETS = ROOT / "tests" / "targets"
MIB = 1 << 20
#: Ways to come to a peak that `held` says, with the probe in it.
WAYS = (
    *("anonymous", "sparse", "huge", "populated", "shared", "read", "file", "copied", "malloc"),
    *("small", "break", "locked", "given-back", "twice", "moved", "pieces", "threads", "heaps"),
    *("kernel", "fork"),
)
#: Of random programs, statically linked.
SEEDS = tuple(range(1, 21))
#: Bytes of the control groups in which programs are killed.
LIMIT = 24 * MIB

#: Records a command under a name, with what it prints, says and returns. Without huge pages but
#: where a program wants them: which others it gets depends on where its mappings happen to lie.
RECORD = """
echo madvise >/sys/kernel/mm/transparent_hugepage/enabled
record() {
    name=$1; shift
    memtrace -q --kernel ebpf -o /out/$name -- "$@" >/out/$name.out 2>/out/$name.err
    echo $? >/out/$name.status
}
uname -r >/out/release
sed -n '/KernelPageSize/{s/[^0-9]//g;p;q}' /proc/self/smaps >/out/page
memtrace doctor --json >/out/doctor
"""
PEAKS = """
for way in {ways}; do record held-$way held $way; done
for seed in {seeds}; do record steps-$seed steps $seed; done
record brief held brief 64
"""
OTHERS = """
record touched touched
record untouched untouched
record mapped sh -c '(sleep 0.5; echo go) | mapped-static'
record raw raw
"""
ATTACHED = """
mkfifo line
mapped <line >/out/attached.out &
exec 3>line
memtrace attach $! -o /out/attached --uprobe libc:madvise >/dev/null 2>/out/attached.err &
for look in $(seq 300); do [ -e /out/attached/processes.parquet ] && break; sleep 0.1; done
echo go >&3
wait $!
echo $? >/out/attached.status
exec 3>&-
"""
#: Lack of memory is reported some time after the beginning.
KILLED = """
mkdir /groups
mount -t cgroup2 cgroup2 /groups
echo +memory >/groups/cgroup.subtree_control
for program in grows grows-static; do
    mkdir /groups/$program
    echo {limit} >/groups/$program/memory.max
    record $program sh -c 'sleep 1; echo 0 >/groups/$0/cgroup.procs; exec $0 100' $program
done
"""
#: With two capabilities, neither root nor allowed to lock memory; and where that is allowed.
#: Then without the kernel's types.
ALLOWED = """
few() {
    /usr/bin/setpriv --reuid 1000 --regid 1000 --clear-groups --no-new-privs \
        --inh-caps -all,+bpf,+perfmon --ambient-caps +bpf,+perfmon "$@"
}
chmod 1777 /tmp
ulimit -l 64
few memtrace doctor --json >/out/doctor-locked
ulimit -l unlimited
few memtrace doctor --json >/out/doctor-few
few memtrace -q --kernel ebpf -o few -- held malloc >/out/few.out 2>/out/few.err
echo $? >/out/few.status
cp -r few /out
few id -u >/out/few.user
mount -t tmpfs tmpfs /sys/kernel/btf
memtrace doctor --json >/out/doctor-untyped
memtrace -q -o /out/untyped -- held malloc >/out/untyped.out 2>/out/untyped.err
echo $? >/out/untyped.status
"""


def everything():
    """The script that records all of it."""
    return RECORD + peaks(WAYS, SEEDS) + OTHERS + ATTACHED + KILLED.format(limit=LIMIT) + ALLOWED


def peaks(ways, seeds):
    return PEAKS.format(ways=" ".join(ways), seeds=" ".join(map(str, seeds)))


def recorded(folder, image, script, machine=AMD64):
    """Boots a kernel and runs a script of the above there."""
    files = programs(folder, machine) | initramfs.recorder(folder, machine)
    archive = initramfs.packed(folder, script, files, machine)
    return guest.booted(folder, image, archive, machine, seconds=1200)


def programs(folder, machine):
    """Files of the guest, by path."""

    def built(name, source, *flags):
        return machine.compiled(folder / name, TARGETS / source, *flags)

    static = ["-static"]
    made = {
        "held": built("held", "held.c"),
        "touched": built("touched", "touched.c"),
        "untouched": built("untouched", "untouched.c"),
        "mapped": built("mapped", "mapped.c"),
        "grows": built("grows", "grows.c"),
        "steps": built("steps", "steps.c", *static),
        "mapped-static": built("mapped-static", "mapped.c", *static),
        "grows-static": built("grows-static", "grows.c", *static),
        "raw": built("raw", "raw.c", *static, "-nostdlib"),
    }
    paths = {f"/usr/bin/{name}": path for name, path in made.items()}
    return paths | {"/usr/bin/setpriv": machine.file("/usr/bin/setpriv")}
