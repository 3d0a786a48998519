"""The native half of the package, where it has been built."""

import pytest

pytest.importorskip("memtrace._native", reason="the native module is not built (maturin develop)")

import memtrace


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"schema_version": 999, "laws": []}'])
def test_a_file_that_is_no_model_is_one_clear_error(tmp_path, text):
    path = tmp_path / "model.json"
    path.write_text(text)
    with pytest.raises(ValueError, match="model"):
        memtrace.Model.load(path)


def test_a_model_without_the_law_says_so(tmp_path):
    path = tmp_path / "model.json"
    path.write_text('{"schema_version": 1, "laws": []}')
    model = memtrace.Model.load(path)
    assert model.operators() == []
    with pytest.raises(ValueError, match="no law for gst3d"):
        model.predict("gst3d", (10, 10, 10))
    with pytest.raises(TypeError, match="window"):
        model.predict("gst3d", (10, 10, 10), window=[])


def test_a_directory_that_is_no_trace_is_one_clear_error(tmp_path):
    with pytest.raises(ValueError, match="cannot read"):
        memtrace.Trace(tmp_path / "absent")
