"""Answers of laws and plans: dicts that notebooks show as tables."""


class Prediction(dict):
    """What a call of an operator needs: a dict with the keys of `memtrace predict --json`."""

    def _repr_html_(self):
        from .summaries import prediction

        return prediction(self)


class Plan(dict):
    """Chunks, and what they are predicted to need.

    A dict with the keys of `memtrace recommend --format json`; for a pipeline, of
    `memtrace plan --json`.
    """

    def plot(self, *, ax=None):
        """Draws what a worker holds against its budget (matplotlib).

        Over the number of tasks, for each of the choices that were left; for a pipeline, what a
        task of each step needs.

        Args:
            ax: The axes to draw on (default: new ones).

        Returns:
            The axes.

        Raises:
            ImportError: matplotlib is not installed.
        """
        from .plots import plan

        return plan(self, ax=ax)

    def _repr_html_(self):
        from .summaries import plan

        return plan(self)


class Forecast(dict):
    """The predicted memory of a graph that runs as it is: the keys of `memtrace plan --json`."""

    def plot(self, *, ax=None):
        """Draws live bytes over time, with their peak and its bound (matplotlib).

        Args:
            ax: The axes to draw on (default: new ones).

        Returns:
            The axes.

        Raises:
            ImportError: matplotlib is not installed.
        """
        from .plots import forecast

        return forecast(self, ax=ax)

    def _repr_html_(self):
        from .summaries import forecast

        return forecast(self)
