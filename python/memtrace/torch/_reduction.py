"""The memory in which the blocks of a GPU put a sum together.

A sum of many values into few outputs is shared by several thread blocks, which meet in a buffer:
the rules are those of aten/src/ATen/native/cuda/Reduce.cuh.
"""

import math

_THREADS = 512  # of a block, over the outputs that one thread makes
_WARP = 32
_VECTOR = 4
_LEAST, _MOST = 16, 256  # values that one thread adds up


def buffers_of_sum(input, axes, gpu):
    """Bytes of the buffer and of the counters; none where each output is one block's."""
    summed, kept = _axes(input, axes)
    inputs = math.prod(length for length, _ in summed)
    outputs = math.prod(length for length, _ in kept)
    if not summed or inputs * outputs == 0:
        return []
    along = not kept or summed[0][1] < kept[0][1]  # neighbours are added to each other
    first, second = (inputs, outputs) if along else (outputs, inputs)
    vector = 1
    if along and summed[0][1] == 1 and first > 128 and len(summed) == 1 and not kept:
        first //= _VECTOR
    elif not along and kept[0][1] == 1:
        vector = _outputs_of_thread(summed, kept)
        first //= vector
    width, height = _block(first, second, _THREADS // vector)
    step_in, step_out = (width, 1) if along else (1, width)
    if -(-inputs // step_in) < min(height * _LEAST, _MOST):
        return []
    values = -(-inputs // (step_in * height))
    grid = -(-(outputs // vector) // step_out)
    target = gpu.processors * (gpu.threads // (width * height))
    if values < _MOST or grid > target:
        return []
    blocks = max(min(-(-target // grid), -(-values // _LEAST)), -(-values // _MOST))
    if blocks <= 1:
        return []
    size = max(input.element_size(), 4) * outputs * blocks
    return [size if along else size * width * vector, 4 * grid]


def _axes(input, axes):
    """The axes that are summed and those that are not: (length, stride), nearest elements first;
    what lies behind each other is one axis."""
    axes = {axis % input.dim() for axis in axes} if axes else set(range(input.dim()))
    by_stride = sorted(range(input.dim()), key=lambda axis: (input.stride(axis), -axis))
    found = [], []
    for axis in by_stride:
        length, stride = input.shape[axis], input.stride(axis)
        group = found[axis not in axes]
        if group and group[-1][0] * group[-1][1] == stride:
            group[-1] = (group[-1][0] * length, group[-1][1])
        elif length != 1:
            group.append((length, stride))
    return found


def _outputs_of_thread(summed, kept):
    """As many neighbouring outputs as every line of the input has room for."""
    vector = _VECTOR
    for number in (kept[0][0], *(stride for _, stride in [*summed, *kept[1:]])):
        while number % vector:
            vector //= 2
    return vector


def _block(first, second, most):
    """Width and height of a thread block for two lengths."""
    first, second = (min(1 << (max(n, 1).bit_length() - 1), most) for n in (first, second))
    width = min(first, _WARP)
    height = min(second, most // width)
    return min(first, most // height), height
