"""Layer graphs of published networks as objects to place: weights of the layers, and their outputs.

The rule, written down before any search ran: bytes follow from the layers' shapes in 32-bit floats.
Each use of an object moves its bytes once. In training, weights are used three times (forward, for
the gradient of the input, for their own), an output is written, read by each layer that takes it,
and once more on the way back, until when it is live. In inference, weights are used once, an output
is written and read by each layer that takes it, and released after the last one. What an object
gains is what it moves times a factor that says how much of it reaches memory: log-normal, with a
standard deviation `spread` of its logarithm.
"""

import math
from dataclasses import dataclass, field

BATCH = 16
FLOAT = 4
#: Seconds that a byte gains in the fast tier: 10 GB/s against 30 GB/s.
GAIN = 1 / 10e9 - 1 / 30e9


@dataclass
class Layers:
    """Layers in their order: bytes of weights and outputs, and whose outputs each takes."""

    weights: list = field(default_factory=list)
    outputs: list = field(default_factory=list)
    inputs: list = field(default_factory=list)

    def add(self, weights, output, *inputs):
        """A layer with so many weights, and numbers for each sample; its number."""
        self.weights.append(FLOAT * weights)
        self.outputs.append(FLOAT * BATCH * output)
        self.inputs.append(inputs)
        return len(self.weights) - 1

    def convolution(self, before, kernel, channels, filters, side, groups=1):
        """A convolution and its batch normalisation."""
        weights = kernel * kernel * channels * filters // groups
        done = self.add(weights, filters * side * side, before)
        return self.add(4 * filters, filters * side * side, done)

    def like(self, before, numbers):
        """A layer without weights."""
        return self.add(0, numbers, before)


def resnet(blocks):
    """He et al. 2016, with bottlenecks; 50 and 101 have 158 and 311 layers."""
    net = Layers()
    last = net.like(net.convolution(0, 7, 3, 64, 112), 64 * 112 * 112)
    last = net.like(last, 64 * 56 * 56)
    channels, side = 64, 56
    for stage, count in enumerate(blocks):
        width, out = 64 << stage, 256 << stage
        for block in range(count):
            reduced = side // 2 if stage and not block else side
            first = net.like(net.convolution(last, 1, channels, width, side), width * side * side)
            middle = net.convolution(first, 3, width, width, reduced)
            middle = net.like(middle, width * reduced * reduced)
            end = net.convolution(middle, 1, width, out, reduced)
            if not block:
                last = net.convolution(last, 1, channels, out, reduced)
            last = net.add(0, out * reduced * reduced, end, last)
            channels, side = out, reduced
    last = net.like(last, channels)
    net.add(channels * 1000, 1000, last)
    return net


def vgg():
    """Simonyan and Zisserman 2015, 16 layers."""
    net, last, channels, side = Layers(), 0, 3, 224
    for count, filters in ((2, 64), (2, 128), (3, 256), (3, 512), (3, 512)):
        for _ in range(count):
            convolved = net.convolution(last, 3, channels, filters, side)
            last, channels = net.like(convolved, filters * side * side), filters
        side //= 2
        last = net.like(last, channels * side * side)
    for before, after in ((channels * side * side, 4096), (4096, 4096), (4096, 1000)):
        last = net.add(before * after, after, last)
    return net


def unet():
    """Ronneberger et al. 2015: what the way down passes on is used again on the way up."""
    net, last, channels, side, kept = Layers(), 0, 1, 256, []
    for level in range(5):
        filters = 64 << level
        for _ in range(2):
            convolved = net.convolution(last, 3, channels, filters, side)
            last, channels = net.like(convolved, filters * side * side), filters
        if level < 4:
            kept.append(last)
            side //= 2
            last = net.like(last, channels * side * side)
    for level in reversed(range(4)):
        filters, side = 64 << level, 2 * side
        up = net.add(4 * channels * filters, filters * side * side, last)
        last, channels = net.add(0, 2 * filters * side * side, up, kept[level]), 2 * filters
        for _ in range(2):
            convolved = net.convolution(last, 3, channels, filters, side)
            last, channels = net.like(convolved, filters * side * side), filters
    return net


def transformer():
    """The encoder of Vaswani et al. 2017 with 12 layers of width 768, 256 tokens."""
    net, width, tokens, heads = Layers(), 768, 256, 12
    last = net.add(30_000 * width, tokens * width)
    for _ in range(12):
        rows = [net.add(width * width, tokens * width, last) for _ in range(3)]
        scores = net.add(0, heads * tokens * tokens, *rows[:2])
        mixed = net.add(0, tokens * width, net.like(scores, heads * tokens * tokens), rows[2])
        attended = net.add(width * width, tokens * width, mixed)
        last = net.add(2 * width, tokens * width, attended, last)
        wide = net.like(net.add(4 * width * width, 4 * tokens * width, last), 4 * tokens * width)
        narrow = net.add(4 * width * width, tokens * width, wide)
        last = net.add(2 * width, tokens * width, narrow, last)
    return net


def mobilenet():
    """Sandler et al. 2018: convolutions of single channels between narrow layers."""
    net, channels, side = Layers(), 32, 112
    last = net.convolution(0, 3, 3, 32, side)
    stages = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1))
    for factor, filters, count, stride in (*stages, (6, 160, 3, 2), (6, 320, 1, 1)):
        for block in range(count):
            wide, after = factor * channels, side // stride if not block else side
            first = net.convolution(last, 1, channels, wide, side)
            middle = net.convolution(first, 3, wide, wide, after, groups=wide)
            end = net.convolution(middle, 1, wide, filters, after)
            numbers = filters * after * after
            last = net.add(0, numbers, end, last) if channels == filters and block else end
            channels, side = filters, after
    return net


def instance(net, training, spread, capacity_share, draw):
    """The objects of a network as `placement_search` reads them, those without bytes left out."""
    layers = range(len(net.weights))
    takers = [[other for other in layers if layer in net.inputs[other]] for layer in layers]
    end = 2 * len(layers)
    objects = []
    for layer in layers:
        passes = 3 if training else 1
        objects.append((net.weights[layer], passes, 0, end, layer / end))
        passes = 1 + len(takers[layer]) + training
        until = end - layer if training else max(takers[layer], default=layer) + 1
        objects.append((net.outputs[layer], passes, layer, until, layer / end))
    objects = [each for each in objects if each[0]]
    objects.sort(key=lambda each: each[2])
    items = [
        {"bytes": size, "gain": size * passes * GAIN * math.exp(spread * draw.gauss(0, 1))}
        for size, passes, *_ in objects
    ]
    traits = [
        {
            "blocks": 1,
            "siblings": sum(size == each[0] for each in objects),
            "begin": begin / end,
            "end": until / end,
            "live": (until - begin) / end,
            "reuse_bytes": 0.0,
            "time_share": None,
        }
        for size, _, begin, until, _ in objects
    ]
    times = [len(layers)] if training else layers
    together = [
        [n for n, (_, _, begin, until, _) in enumerate(objects) if begin <= time < until]
        for time in times
    ]
    return with_capacity({"items": items, "traits": traits, "together": together}, capacity_share)


def with_capacity(instance, share):
    """The same with a share of the bytes that are live at one time at most."""
    live = (sum(instance["items"][n]["bytes"] for n in some) for some in instance["together"])
    return instance | {"capacity": int(share * max(live))}


def sampled(instance, off, draw):
    """The same, with gains that are off by a share (normal), and samples in proportion to them."""
    told = [each["gain"] * (1 + off * draw.gauss(0, 1)) for each in instance["items"]]
    met = [max(gain, 0.0) for gain in told]
    items = [each | {"gain": gain} for each, gain in zip(instance["items"], told, strict=True)]
    traits = [
        each | {"time_share": share / sum(met)}
        for each, share in zip(instance["traits"], met, strict=True)
    ]
    return instance | {"items": items, "traits": traits}


def unsampled(instance):
    """The same without samples."""
    return instance | {"traits": [each | {"time_share": None} for each in instance["traits"]]}
