"""Dry runs on a machine without a GPU."""

START = """
import json, torch, convolutions, mlp, transformer
from memtrace.torch import NoValue, dry_run
"""


def test_by_module(python):
    """Figures for each module, its backward pass and the optimizer; what the peak consists of."""
    found = python(
        START
        + """
run = dry_run(mlp.main)
print(json.dumps([run.by_module, run.live_at_peak, run.why, run.allocated_peak, run.reads]))
""",
        gpu=False,
    )
    modules, held, why, peak, reads = found
    assert {"Sequential", "Sequential.0", "Sequential.2 (backward)", "Adam.step"} <= modules.keys()
    assert modules["Sequential.0"]["calls"] == 2
    # The first layer casts its weight, bias and input; its output, and cuBLASLt's scratch.
    first = (4096 * 1024 + 4096 + 256 * 1024 + 256 * 4096) * 2 + (1 << 20)
    assert modules["Sequential.0"]["working_peak_bytes"] == first
    assert modules["Adam.step"]["peak_bytes"] == peak == sum(size for size, _, _ in held)
    assert ["Adam.step", "aten::zeros_like"] in [who for _, *who in held]
    assert "made by Adam.step in aten::zeros_like" in why and reads == 2


def test_nothing_is_left_behind(python):
    """PyTorch is as it was, and so is what it says of GPUs."""
    found = python(
        START
        + """
before = torch.cuda.is_available(), torch.utils.swap_tensors, torch.autograd._engine_run_backward
dry_run(mlp.main)
after = torch.cuda.is_available(), torch.utils.swap_tensors, torch.autograd._engine_run_backward
layer = torch.nn.Linear(3, 2)
layer(torch.ones(1, 3)).sum().backward()
print(json.dumps([before == after, before[0], layer.weight.grad.tolist()]))
""",
        gpu=False,
    )
    assert found == [True, False, [[1.0] * 3] * 2]


def test_larger_than_any_memory(python):
    """A model of 13 billion parameters takes no memory here, and more than a GPU has there."""
    found = python(
        START
        + """
import resource
run = dry_run(transformer.main, batch=1, length=2048, width=8192, depth=16, words=32000)
host = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps([run.allocated_peak, host]))
""",
        gpu=False,
    )
    peak, host = found
    assert peak > 200e9 and host < 2e9


def test_convolutions_grow_with_the_batch(python):
    found = python(
        START
        + """
peaks = [dry_run(convolutions.main, batch=n).allocated_peak for n in (16, 32, 64)]
print(json.dumps(peaks))
""",
        gpu=False,
    )
    small, middle, large = found
    # Not quite twice: up to 1 MiB of each large block is allocated beyond the request.
    assert abs((large - middle) / (middle - small) - 2) < 0.05


def test_a_device_that_is_too_small(python):
    found = python(
        START
        + """
try:
    dry_run(mlp.main, capacity="150 MB")
except torch.OutOfMemoryError as error:
    print(json.dumps(str(error)))
""",
        gpu=False,
    )
    assert "out of memory (dry run)" in found and "150,000,000" in found


def test_shapes_that_depend_on_values(python):
    found = python(
        START
        + """
def step():
    x = torch.empty(100, device="cuda")
    return x[x > 0]
try:
    dry_run(step)
except NoValue as error:
    print(json.dumps(str(error)))
""",
        gpu=False,
    )
    assert "depends on the values" in found


def test_the_program_can_ask(python):
    """What a program asks `torch.cuda` is answered as on the GPU."""
    found = python(
        START
        + """
def step():
    x = torch.empty(1000, 1000, device="cuda")
    said = [torch.cuda.is_available(), torch.cuda.memory_allocated(), torch.cuda.memory_reserved()]
    del x
    torch.cuda.empty_cache()
    said += [torch.cuda.memory_reserved(), torch.cuda.get_device_properties(0).major]
    print(json.dumps(said))
dry_run(step)
""",
        gpu=False,
    )
    assert found == [True, 4_000_256, 20 << 20, 0, 9]


def test_modules_made_on_the_device(python):
    """Initial values are drawn there; attention's own checks read where tensors lie."""
    found = python(
        START
        + """
def linear():
    torch.nn.Linear(64, 64, device="cuda")
def attention():
    layer = torch.nn.TransformerEncoderLayer(64, 4, batch_first=True).cuda()
    layer(torch.randn(2, 10, 64, device="cuda")).sum().backward()
def shape_by_value():
    try:
        torch.ones(10, device="cuda").nonzero()
    except NoValue:
        torch.empty(1000, device="cuda")
steps = linear, attention, shape_by_value
print(json.dumps([dry_run(step).allocated_peak for step in steps]))
""",
        gpu=False,
    )
    made, attended, caught = found
    assert made == 64 * 64 * 4 + 512
    assert attended > 32 << 20  # cuBLAS's scratch memory
    assert caught == 512 + 4096


def test_a_program_that_looks_how_much_there_is(python):
    found = python(
        START
        + """
def step():
    torch.empty(torch.cuda.mem_get_info()[0] // 2, dtype=torch.uint8, device="cuda")
    sizes.append(torch.cuda.get_device_properties(0).total_memory)
sizes = []
peaks = [dry_run(step, capacity=size).allocated_peak for size in (6 << 30, None)]
print(json.dumps([peaks, sizes]))
""",
        gpu=False,
    )
    assert found == [[3 << 30, 40 << 30], [6 << 30, 80 << 30]]


def test_elements_that_a_program_takes_at_once(python):
    found = python(
        START
        + """
def step():
    import numpy
    x = torch.empty(1 << 20, device="cuda")
    y = torch.empty(1 << 20, pin_memory=True).to("cuda", non_blocking=True)
    shapes.extend([numpy.asarray(x.cpu()).shape, x.numpy(force=True).shape])
    shapes.append(y.cpu().numpy().shape)
    for refused in (x.numpy, x.cpu().requires_grad_().numpy):
        try:
            refused()
        except (TypeError, RuntimeError) as error:
            shapes.append(type(error).__name__)
    shapes.append(torch.cuda.memory.memory_allocated())
    shapes.append(isinstance(torch.default_generator, torch.Generator))
shapes = []
run = dry_run(step)
print(json.dumps([shapes, run.reads]))
""",
        gpu=False,
    )
    shapes, reads = found
    assert shapes == [[1 << 20]] * 3 + ["TypeError", "RuntimeError", 8 << 20, True]
    assert reads == 3 << 20


def test_streams_come_from_a_pool(python):
    """As PyTorch's do: their caches are used again."""
    found = python(
        START
        + """
def step():
    for _ in range(100):
        with torch.cuda.stream(torch.cuda.Stream()):
            torch.empty(1 << 20, device="cuda", dtype=torch.uint8)
print(json.dumps(dry_run(step).reserved_peak))
""",
        gpu=False,
    )
    assert found == 32 * (2 << 20)


def test_out_of_memory_that_is_caught(python):
    """It is PyTorch's error, in the program and in its backward pass; nothing of it is left."""
    found = python(
        START
        + """
def step():
    for size in (1 << 33, 1 << 20):
        try:
            kept = torch.empty(size, device="cuda")
        except torch.OutOfMemoryError as error:
            said.append(str(error))
    first = torch.empty(1 << 22, device="cuda", requires_grad=True)
    doubled = first.expand(50, -1)
    try:
        doubled.exp().sum().backward()
    except torch.OutOfMemoryError as error:
        said.append(str(error))
    del doubled
said = []
run = dry_run(step, capacity="1 GB")
print(json.dumps([len(run.timeline), [event for event in run.events if hasattr(event, "bytes")],
    run.replay().allocated_peak, run.allocated_peak, said]))
""",
        gpu=False,
    )
    blocks, allocations, replayed, peak, said = found
    assert len(said) == 2 and all("out of memory (dry run)" in each for each in said)
    assert blocks == len(allocations)
    assert replayed == peak


def test_scratch_memory_that_does_not_fit(python):
    """What an operator had already is released."""
    found = python(
        START
        + """
def step():
    x, y = (torch.empty(1024, 1024, device="cuda") for _ in range(2))
    for _ in range(3):
        try:
            torch.mm(x, y)
        except torch.OutOfMemoryError:
            pass
    scores = torch.empty(1 << 20, device="cuda")
    try:
        torch.nn.functional.binary_cross_entropy_with_logits(scores, scores)
    except torch.OutOfMemoryError:
        pass
    print(torch.cuda.memory_allocated())
    return x, y, scores
run = dry_run(step, capacity=36 << 20)
live = {event[0]: event[1] for event in run.events if hasattr(event, "bytes")}
for event in run.events:
    if len(event) == 1:
        live.pop(event[0])
print(json.dumps(live))
""",
        gpu=False,
    )
    assert found == {}


def test_replays(python):
    """With the run's own settings unless others are given, as texts."""
    found = python(
        START
        + """
def step():
    pieces = [torch.empty(20_000 * n, device="cuda") for n in range(1, 60)]
    del pieces
    torch.empty(60_000_000, device="cuda")
run = dry_run(step, settings="expandable_segments:True")
plain = run.replay("expandable_segments:False")
print(json.dumps([run.reserved_peak, run.replay().reserved_peak, plain.reserved_peak,
    dry_run(step).reserved_peak, run.replay(capacity="260 MB").reserved_peak]))
""",
        gpu=False,
    )
    expandable, own, plain, default, small = found
    assert expandable == own < plain == default
    assert small <= 260_000_000
