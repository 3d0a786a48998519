"""Streams and events of a pretended GPU: whatever is asked of it has been done at once."""

from itertools import count

import torch


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

    chosen: is told the number of the stream that the program goes on with.
    """

    def __init__(self, chosen):
        self._chosen = chosen
        numbers = count()

        class Stream:
            """As `torch.cuda.Stream`."""

            def __init__(self, device=None, priority=0, **kwargs):
                self.device, self.priority = torch.device("cuda", 0), priority
                self.device_index, self.cuda_stream = 0, next(numbers)
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
        self.default = self.current = Stream()

    def choose(self, stream):
        if stream is not None:
            self.current = stream
            self._chosen(stream.cuda_stream)
