"""Streams and events of a simulated GPU, where all work is done at once."""

from collections import Counter

import torch

#: PyTorch has this many streams of a priority, which it returns in turn.
POOL = 32


class Event:
    """As `torch.cuda.Event`; no time passes."""

    def __init__(self, *args, **kwargs):
        self.device = torch.device("cuda", 0)

    def record(self, stream=None):
        pass

    def wait(self, stream=None):
        pass

    def synchronize(self):
        pass

    def query(self):
        return True

    def elapsed_time(self, end):
        return 0.0


class Streams:
    """Those of one dry run. The allocator has a cache for each, by its number.

    chosen: is called with the number of the stream that the program goes on with.
    """

    def __init__(self, chosen):
        self._chosen = chosen
        made = Counter()  # by whether their priority is a high one

        class Stream:
            """As `torch.cuda.Stream`."""

            def __init__(self, device=None, priority=0, *, number=None, **kwargs):
                self.device, self.priority = torch.device("cuda", 0), priority
                if number is None:
                    number = 1 + POOL * (priority < 0) + made[priority < 0] % POOL
                    made[priority < 0] += 1
                self.device_index, self.cuda_stream = 0, number
                self._before = []

            def __enter__(self):
                self._before.append(streams.current)
                streams.choose(self)
                return self

            def __exit__(self, *error):
                streams.choose(self._before.pop())

            def is_capturing(self):
                return False

            def query(self):
                return True

            def record_event(self, event=None):
                return event or Event()

            def synchronize(self):
                pass

            def wait_event(self, event):
                pass

            def wait_stream(self, stream):
                pass

        streams = self
        self.Stream = Stream
        self.default = self.current = Stream(number=0)

    def choose(self, stream):
        if stream is not None:
            self.current = stream
            self._chosen(stream.cuda_stream)
