"""Networks of MSAdapter, of which a part that shows what it is stands in for the whole."""

import numpy as np
import pytest

import troubleshooter_nb as tnb
from tests.compat.msprobe.conftest import DATA, dumps_in

pytestmark = pytest.mark.mindspore
MSADAPTER = DATA / "compat" / "msadapter"


@pytest.fixture
def dump(run_alone, tmp_path):
    pytest.importorskip("mindspore")
    run_alone(MSADAPTER / "script.py", tmp_path / "dump", generation="8.3", beside=MSADAPTER)
    return tmp_path / "dump"


def test_names_are_those_of_torch_and_tensors_those_of_mindspore(dump):
    document = dumps_in(dump)["step1/rank"]["dump"]
    assert document["framework"] == "mindtorch"
    assert [*document["data"]] == [
        "Functional.linear.0.forward",
        "Module.fc.Linear.forward.0",
        "Module.fc.Linear.parameters_grad",
        "Functional.relu.0.forward",
        "Tensor.sum.0.forward",
        "Tensor.sum.0.backward",
        "Functional.relu.0.backward",
        "Functional.linear.0.backward",
        "Module.fc.Linear.backward.0",
    ]
    (output,) = document["data"]["Functional.relu.0.forward"]["output"]
    assert (output["type"], output["dtype"]) == ("mindspore.Tensor", "Float32")
    assert output["data_name"] == "Functional.relu.0.forward.output.0.npy"


def test_values_are_those_of_the_network(dump):
    opened = tnb.open_dump(dump)
    weight = np.linspace(-1, 2, 6, dtype=np.float32).reshape(2, 3)
    for step in range(2):
        x = np.array([[1, -2, step]], np.float32)
        place = dump / f"step{step}" / "rank" / "dump_tensor_data"
        given = np.load(place / "Module.fc.Linear.forward.0.output.0.npy")
        np.testing.assert_allclose(given, x @ weight.T + 1, rtol=1e-6)
        gradient = np.load(place / "Module.fc.Linear.parameters_grad.weight.npy")
        np.testing.assert_array_equal(gradient, (given > 0).T * x)
    assert len(opened.to_dataframe()) == 48
