"""`detector adapt`: a model that is right where the values are now, or a clear refusal."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
import yaml
from click.testing import CliRunner

from detector import AdaptedModel
from detector.adaptation.actions import ACTIONS
from detector.adaptation.csv_table import Columns, complete, thinned
from detector.adaptation.refit import Options, Pairs, Refused, adapt, alone, pairs_of, spectral, within
from detector.cli.main import cli
from detector.diagnosis.actions import ActionError, parse
from detector.diagnosis.repository import Repository
from detector.incidents.case import Case
from detector.storage.store import Bundle, Store
from estimators import Iwrls
from tests.detector.rig import write_config

CENTRE, SCALE = 60.0, 10.0  # of the sensor's quiet values


def curve(x):
    return 20.0 + 5.0 * np.tanh((x - 60.0) / 8.0)


def labelled(n=400, seed=0, d=1):
    rng = np.random.default_rng(seed)
    x = CENTRE + SCALE * rng.normal(size=(n, d))
    y = curve(x[:, 0]) + 0.3 * rng.normal(size=n)
    return Pairs(tuple(f"c{k}" for k in range(d)), ("y",), x, y[:, None])


def moved(m=150, shift=12.0, spread=4.0, seed=1, d=1):
    rng = np.random.default_rng(seed)
    values = CENTRE + SCALE * rng.normal(size=(m, d))
    values[:, 0] = CENTRE + shift + spread * rng.normal(size=m)
    return values


def as_csv(pairs: Pairs) -> str:
    head = ",".join((*pairs.features, *pairs.targets))
    rows = (",".join(f"{v:.6g}" for v in (*x, *y)) for x, y in zip(pairs.x, pairs.y, strict=True))
    return "\n".join([head, *rows]) + "\n"


def values_csv(values, names=("c0",)) -> str:
    return "\n".join([";".join(names), *(";".join(f"{v:.6g}" for v in row) for row in values)]) + "\n"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "pairs.csv").write_text(as_csv(labelled()))
    (tmp_path / "values.csv").write_text(values_csv(moved()))
    return tmp_path


def run(*arguments: object) -> str:
    done = CliRunner().invoke(cli, [str(one) for one in ("adapt", *arguments)])
    assert done.exit_code == 0, done.output
    return done.stdout


def refused(*arguments: object, code: int = 1) -> str:
    done = CliRunner().invoke(cli, [str(one) for one in ("adapt", *arguments)])
    assert done.exit_code == code, done.output
    return done.stderr


# ------------------------------------------------------------------------------------- columns


def test_columns():
    """Any of three delimiters, any order, byte order mark, empty lines; text columns may stay text."""
    columns = Columns.read(b"\xef\xbb\xbfwhen;a;b\r\nmonday;1;2\r\n\r\ntuesday;;4\n", "f.csv")

    np.testing.assert_array_equal(columns.numbers(["b", "a"]), [[2.0, 1.0], [4.0, np.nan]])
    whole, dropped = complete(columns.numbers(["a", "b"]))
    np.testing.assert_array_equal(whole, [[1.0, 2.0]])
    assert dropped == 1
    assert len(thinned(np.zeros((100, 1)), 7)) == 7


@pytest.mark.parametrize(
    ("data", "names", "message"),
    [
        (b"", ["a"], "f.csv: the file is empty"),
        (b"1,2\n3,4\n", ["a"], "f.csv, line 1: expected the names of the columns"),
        (b"a,a\n1,2\n", ["a"], "f.csv, line 1: two columns are called 'a'"),
        (b"a,b\n1,2\n3\n", ["a"], "f.csv, line 3: 1 cells, but there are 2 columns"),
        (b"a,b\n1,x\n", ["b"], "f.csv, line 2: b is 'x', which is no finite number"),
        (b"a,b\n1,inf\n", ["b"], "f.csv, line 2: b is 'inf', which is no finite number"),
        (b"a,b\n1,2\n", ["c"], r"f.csv: there is no column 'c' \(columns: a, b\)"),
        (b"a,b\n1,\xff\n", ["a"], "f.csv, line 2: "),
        (b"\x89PNG\r\n\x1a\n\0\0", ["a"], "f.csv, line 1: expected the names of the columns"),
    ],
)
def test_columns_refused(data, names, message):
    """What is no table says where it is none."""
    with pytest.raises(ValueError, match=message):
        Columns.read(data, "f.csv").numbers(names)


def test_pairs_of():
    """All other columns are features unless some are named; the target is none of them."""
    columns = Columns.read(b"a,b,old,y\n1,2,3,4\n5,6,,8\n9,10,11,12\n", "f.csv")
    pairs, dropped = pairs_of(columns, ["y"], present=["old"])

    assert (pairs.features, dropped) == (("a", "b"), 1)
    np.testing.assert_array_equal(pairs.present, [[3.0], [11.0]])
    assert pairs_of(columns, ["y"], ["b"])[0].x.tolist() == [[2.0], [6.0], [10.0]]
    with pytest.raises(ValueError, match=r"f\.csv: 'y' cannot be target and feature"):
        pairs_of(columns, ["y"], ["y"])
    with pytest.raises(ValueError, match="no column beside 'y' to predict from"):
        pairs_of(Columns.read(b"y\n1\n", "f.csv"), ["y"])
    with pytest.raises(ValueError, match="no complete row"):
        pairs_of(Columns.read(b"x,y\n,1\n", "f.csv"), ["y"])


# ------------------------------------------------------------------------------------ computing


@pytest.mark.parametrize("ratio", ["spectral", "grulsif"])
def test_a_line_is_turned(ratio):
    """A line fitted to all pairs is wrong where the values are now; the adapted one is right there."""
    pairs, values = labelled(), moved()
    weigh = spectral(pairs.x, values) if ratio == "spectral" else alone(pairs.x, values)
    made = adapt(pairs, values, weigh, Options(ratio=ratio, model="line"))
    fresh = moved(2000, seed=9)
    before = Iwrls(linear=True).fit(pairs.x, pairs.y[:, 0]).predict(fresh)
    error = {name: np.mean((curve(fresh[:, 0]) - predicted) ** 2)
             for name, predicted in (("before", before), ("after", made.model.predict(fresh)))}  # fmt: skip

    assert error["after"] < 0.5 * error["before"]
    assert made.verdicts == ["the adapted model is better where the values are now"]
    assert made.error(made.after) < made.error(made.before)
    assert 30.0 < made.size < 400.0


def test_kernels_need_no_weights():
    """Kernels follow the curve anyway: the verdict says that the model without weights serves as well."""
    pairs, values = labelled(), moved()
    made = adapt(pairs, values, spectral(pairs.x, values), Options())
    fresh = moved(2000, seed=9)

    assert np.sqrt(np.mean((curve(fresh[:, 0]) - made.model.predict(fresh)) ** 2)) < 0.15
    assert "no clear difference" in made.verdicts[0]
    assert made.error(made.after) == pytest.approx([0.3], abs=0.1)


def test_no_shift_changes_nothing():
    """Values like the pairs: nearly all pairs count."""
    pairs, values = labelled(), CENTRE + SCALE * np.random.default_rng(5).normal(size=(150, 1))
    made = adapt(pairs, values, spectral(pairs.x, values), Options(model="line"))

    assert made.size > 360.0
    assert made.outside < 0.05
    assert made.error(made.after) == pytest.approx(made.error(made.before), rel=0.05)


@pytest.mark.parametrize(
    ("shift", "spread", "n", "m", "message"),
    [
        (80.0, 4.0, 400, 150, "100% of the values since the change lie where no labelled pair is"),
        (23.0, 1.5, 400, 150, r"only \d+ of 400 labelled pairs lie among the values since the change"),
        (10.0, 4.0, 20, 150, "only 20 labelled pairs; at least 30 are needed"),
        (10.0, 4.0, 400, 7, "only 7 values since the change; at least 20 are needed"),
    ],
)  # fmt: skip
def test_refuses(shift, spread, n, m, message):
    """Too far, too narrow at the edge, too few pairs, too few values: no model rather than a wrong one."""
    pairs, values = labelled(n), moved(m, shift, spread)
    with pytest.raises(Refused, match=message):
        adapt(pairs, values, spectral(pairs.x, values), Options())


def test_refuses_a_small_effective_size():
    """Weights that leave few pairs are refused by their effective sample size."""
    pairs, values = labelled(), moved()
    few = np.zeros(400)
    few[:12] = 1.0
    with pytest.raises(Refused, match=r"the effective sample size is 12\.0 of 400 labelled pairs, below 30"):
        adapt(pairs, values, lambda x: few, Options())
    with pytest.raises(Refused, match="no labelled pair is likely where the values are now"):
        adapt(pairs, values, lambda x: np.zeros(400), Options())


@pytest.mark.parametrize("d", [1, 3])
def test_within(d):
    """Nearly all of a fresh sample of the same law is within; nothing far away, or of another spread, is."""
    rng = np.random.default_rng(0)
    reference, fresh = rng.normal(size=(300, d)), rng.normal(size=(300, d))

    assert 0.94 < within(reference, fresh, 0.99).mean() <= 1.0
    assert not within(reference, fresh + 50.0, 0.99).any()
    narrow = 0.05 * reference + 1.0
    assert within(narrow, fresh, 0.9).mean() < 0.1


@pytest.mark.parametrize("awkward", ["constant feature", "constant target", "duplicates", "huge units"])
def test_awkward_pairs(awkward):
    """Singular data give a model with finite predictions."""
    pairs, values = labelled(d=2), moved(d=2)
    x, y = pairs.x.copy(), pairs.y.copy()
    if awkward == "constant feature":
        x[:, 1] = values[:, 1] = 3.0
    elif awkward == "constant target":
        y[:] = 7.0
    elif awkward == "duplicates":
        x, y = x[np.arange(400) // 4], y[np.arange(400) // 4]
    else:
        x, values = x * 1e12, values * 1e12
    made = adapt(replace(pairs, x=x, y=y), values, spectral(x, values), Options())

    assert np.isfinite(made.model.predict(values)).all()
    assert np.isfinite([v for v in made.facts().values() if isinstance(v, float)]).all()


# ------------------------------------------------------------------------------------ model file


@pytest.mark.parametrize("model", ["kernels", "line"])
def test_model_file(model):
    """The file holds all that is needed: read again, it predicts what the fit predicts."""
    pairs, values = labelled(d=2), moved(d=2)
    made = adapt(pairs, values, spectral(pairs.x, values), Options(model=model))
    again = AdaptedModel.decode(made.model.encode())

    np.testing.assert_array_equal(again.predict(values), made.model.predict(values))
    assert again.encode() == made.model.encode()
    z = (pairs.x - made.model.centre) / made.model.scale
    w = made.weights
    y = pairs.y[:, 0]
    fit = Iwrls(linear=True).fit(z, y, w) if model == "line" else Iwrls.select(z, y, w)
    np.testing.assert_allclose(made.model.predict(pairs.x), fit.predict(z), rtol=1e-6)


def broken(data: bytes) -> dict[str, tuple[bytes, str]]:
    good = json.loads(data)
    return {
        "truncated": (data[: len(data) // 2], "truncated"),
        "not json": (b"\x89PNG", "malformed"),
        "foreign": (b'{"weights": [1, 2]}', "no model of `detector adapt`"),
        "list": (b"[]", "no model of `detector adapt`"),
        "newer": (json.dumps({**good, "version": 3}).encode(), "model of version 3, this detector reads 2"),
        "more": (json.dumps({**good, "code": "x"}).encode(), "unknown field `code`"),
        "short": (json.dumps({**good, "coefficients": [[1.0]]}).encode(), "1 coefficients do not fit"),
        "ragged": (json.dumps({**good, "centres": [[1.0, 2.0]]}).encode(), "a centre has not 1 components"),
        "text": (json.dumps({**good, "intercepts": ["0"]}).encode(), "Expected `float`"),
        "targets": (
            json.dumps({**good, "targets": ["a", "b"]}).encode(),
            "targets, coefficients and intercepts",
        ),
        "kernel": (json.dumps({**good, "kernel": "cubic"}).encode(), "unknown kernel 'cubic'"),
        "scale": (json.dumps({**good, "scale": [0.0]}).encode(), "scale and width must be above zero"),
        "names": (json.dumps({**good, "features": []}).encode(), "features, centre and scale do not fit"),
    }


def test_model_file_refused(files):
    """A file that is cut, foreign, newer or inconsistent is refused, with its name and the reason."""
    run("fit", files / "pairs.csv", "--target", "y", "--values", files / "values.csv", "-o", files / "m.json")
    for data, message in broken((files / "m.json").read_bytes()).values():
        (files / "bad.json").write_bytes(data)
        said = refused("predict", files / "bad.json", files / "values.csv")
        assert f"{files / 'bad.json'}: " in said
        assert message in said


def test_wrong_dimension():
    """Values of another width are refused by name."""
    model = AdaptedModel(targets=("y",), features=("a", "b"), centre=(0.0, 0.0), scale=(1.0, 2.0),
                         kernel="linear", coefficients=((3.0, 4.0),), intercepts=(5.0,))  # fmt: skip

    np.testing.assert_allclose(model.predict([[1.0, 2.0]]), [3.0 + 4.0 + 5.0])
    with pytest.raises(ValueError, match="values: 1 columns, but the model has a, b"):
        model.predict([[1.0]])


def test_a_file_of_version_1_is_read():
    """It has one target, and is what this one would write with it."""
    made = adapt(labelled(), moved(), spectral(labelled().x, moved()), Options(model="line"))
    new = json.loads(made.model.encode())
    old = {key: value for key, value in new.items() if key not in ("targets", "intercepts")}
    old |= {
        "version": 1,
        "target": "y",
        "coefficients": new["coefficients"][0],
        "intercept": new["intercepts"][0],
    }
    assert AdaptedModel.decode(json.dumps(old).encode()) == made.model


# -------------------------------------------------------------------------------- several targets


def two(n=400) -> Pairs:
    """Beside the curve, what falls as it rises, in other units."""
    one = labelled(n)
    rng = np.random.default_rng(8)
    second = -2000.0 * one.y[:, 0] + 300.0 * rng.normal(size=n)
    return replace(one, targets=("y", "z"), y=np.column_stack([one.y[:, 0], second]))


@pytest.mark.parametrize("model", ["kernels", "line"])
def test_several_targets_have_one_model(model):
    """Each is as good as by itself, whatever its units; one set of weights and of lambdas serves all."""
    pairs, values, fresh = two(), moved(), moved(2000, seed=9)
    weigh, options = spectral(pairs.x, values), Options(model=model)
    both = adapt(pairs, values, weigh, options)
    found = both.model.predict(fresh)
    assert found.shape == (2000, 2)
    for k, name in enumerate(pairs.targets):
        alone_ = adapt(replace(pairs, targets=(name,), y=pairs.y[:, [k]]), values, weigh, options)
        assert both.error(both.after)[k] == pytest.approx(alone_.error(alone_.after)[0], rel=0.1)
        np.testing.assert_array_equal(both.weights, alone_.weights)
    truth = curve(fresh[:, 0])
    scaled = np.sqrt(np.mean(np.square(found - np.column_stack([truth, -2000.0 * truth])), axis=0))
    assert scaled[0] < 0.7
    assert scaled[1] < 1400.0
    assert both.facts()["error_after"].keys() == {"y", "z"}
    assert AdaptedModel.decode(both.model.encode()) == both.model
    if model == "line":
        z = (pairs.x - both.model.centre) / both.model.scale
        spread = both.unit
        fit = Iwrls(linear=True).fit(z, pairs.y / spread, both.weights)
        np.testing.assert_allclose(both.model.predict(pairs.x), fit.predict(z) * spread, rtol=1e-6)


def test_several_targets_on_the_command_line(files):
    """Errors of each by name, a chart of each, a column of each."""
    (files / "two.csv").write_text(as_csv(two()))
    said = run("fit", files / "two.csv", "--target", "y", "--target", "z", "--values", files / "values.csv",
               "-o", files / "m.json", "--report", files / "r.html", "--json")  # fmt: skip
    facts = json.loads(said)
    assert facts["error_after"].keys() == facts["verdict"].keys() == {"y", "z"}
    rows = run("predict", files / "m.json", files / "values.csv").splitlines()
    assert rows[0] == "c0,y,z"
    first = [float(cell) for cell in rows[1].split(",")]
    assert first[2] == pytest.approx(-2000.0 * first[1], abs=1500.0)
    page = (files / "r.html").read_text()
    assert "Adaptation of y, z" in page
    assert "y, labelled" in page
    assert "z, labelled" in page
    shown = run("show", files / "m.json")
    assert "y, z" in shown
    assert "y: " in shown
    fit = (
        "fit",
        files / "two.csv",
        "--values",
        files / "values.csv",
        "-o",
        files / "n.json",
        "--target",
        "y",
    )
    assert "give 1 to 8 targets, each once" in refused(*fit, "--target", "y")
    assert "1 columns of present predictions, but 2 targets" in refused(
        *fit, "--target", "z", "--present", "c0"
    )
    assert not (files / "n.json").exists()


# ----------------------------------------------------------------------------------- command line


def test_fit_and_predict(files):
    """From files alone: a model, a page, and predictions beside the values."""
    said = run("fit", files / "pairs.csv", "--target", "y", "--values", files / "values.csv", "-o",
               files / "m.json", "--model", "line", "--report", files / "r.html", "--json")  # fmt: skip
    facts = json.loads(said)
    assert facts["error_after"] < facts["error_before"]
    assert facts["pairs"] == 400
    assert facts["effective_size"] > 30.0

    rows = run("predict", files / "m.json", files / "values.csv").splitlines()
    assert rows[0] == "c0,y"
    predicted = np.array([float(row.split(",")[1]) for row in rows[1:]])
    model = AdaptedModel.load(files / "m.json")
    at = [[float(row.split(",")[0])] for row in rows[1:]]
    np.testing.assert_allclose(predicted, model.predict(at), rtol=1e-8)
    assert model.about["effective_size"] == facts["effective_size"]
    assert "effective size" in run("show", files / "m.json")
    page = (files / "r.html").read_text()
    assert "Held-out error of each λ" in page
    assert "<script src" not in page


def test_missing_cells(files):
    """Rows with a gap are left out and told of; where a feature is missing no prediction is made."""
    with (files / "pairs.csv").open("a") as out:
        out.write("1.5,\n,2.0\n")
    (files / "gap.csv").write_text("y,c0\n1,70\n2,\n")
    done = CliRunner().invoke(cli, ["adapt", "fit", str(files / "pairs.csv"), "--target", "y", "--values",
                                    str(files / "values.csv"), "-o", str(files / "m.json")])  # fmt: skip

    assert f"{files / 'pairs.csv'}: 2 rows with a missing cell were left out" in done.stderr
    rows = run("predict", files / "m.json", files / "gap.csv").splitlines()
    assert rows[0] == "y,c0,y_predicted"
    assert rows[2] == "2,,"
    assert float(rows[1].split(",")[2]) == pytest.approx(curve(70.0), abs=0.5)


def test_refusals_leave_no_file(files):
    """Refused or wrong: exit code 1 (2 for usage), one clear line, and nothing written."""
    (files / "far.csv").write_text(values_csv(moved(shift=90.0)))
    fit = ("fit", files / "pairs.csv", "-o", files / "m.json", "--target")
    assert "lie where no labelled pair is" in refused(*fit, "y", "--values", files / "far.csv")
    assert "there is no column 'z' (columns: c0, y)" in refused(*fit, "z", "--values", files / "values.csv")
    (files / "other.csv").write_text("d0\n1\n2\n")
    assert "other.csv: there is no column 'c0'" in refused(*fit, "y", "--values", files / "other.csv")
    assert "give one of --values and --incident" in refused(*fit, "y", code=2)
    assert "below 300" in refused(*fit, "y", "--values", files / "values.csv", "--least-size", "300")
    (files / "few.csv").write_text("c0,y\n70,1\n71,2\n72,3\n")
    with_few = ("fit", files / "few.csv", "-o", files / "m.json", "--target", "y", "--feature", "c0")
    for ratio in ("spectral", "grulsif"):
        few = (*fit, "y", "--ratio", ratio, "--values")
        assert "only 3 values since the change; at least 20" in refused(*few, files / "few.csv")
        assert "only 3 values before the change; at least 20" in refused(
            *few, files / "values.csv", "--reference", files / "few.csv"
        )
        assert "only 3 labelled pairs; at least 30 are needed" in refused(
            *with_few, "--ratio", ratio, "--values", files / "values.csv"
        )
    assert not (files / "m.json").exists()


# -------------------------------------------------------------------------------------- incidents


def case(values, plain=True, components=("c0",), reference=None) -> Case:
    """Three nodes in a row; n0 moved to ``values``, n1 as well, n2 did not."""
    rng = np.random.default_rng(3)
    d, m = len(components), len(values)
    quiet = rng.normal(size=(200, d)) if reference is None else reference
    now = (values - CENTRE) / SCALE
    recent = {"n0": np.vstack([quiet[:10], now]), "n1": np.vstack([quiet[:10], now[::-1]]),
              "n2": rng.normal(size=(m + 10, d))}  # fmt: skip
    return Case(
        incident="i1", stage="settled", time=1e9 + m, opened=1e9 + 5, onset=1e9, step=1.0,
        names=("n0", "n1", "n2"), edges=np.array([[0, 1], [1, 2]], np.int32), weights=np.ones(2),
        members=("n0", "n1"), suspected=(),
        onsets={}, statistic=np.zeros(3, np.float32), event_statistic=np.zeros(3, np.float32),
        levels=np.zeros((3, 1), np.float32), lengths=(m + 10,), increments=np.zeros(3, np.float32),
        threshold=1.0, event_threshold=1.0, components=components,
        reference={name: quiet.astype(np.float32) for name in recent},
        recent={name: part.astype(np.float32) for name, part in recent.items()},
        times={name: 1e9 - 10.0 + np.arange(len(part)) for name, part in recent.items()},
        centre={name: np.full(d, CENTRE) for name in recent},
        scale={name: np.full(d, SCALE) for name in recent}, plain=plain,
    )  # fmt: skip


def shelf_of(folder: Path, *cases: Case) -> Repository:
    store = Store(folder)
    store.commit(Bundle(cases=list(cases)))
    return Repository(store)


def ask(repository: Repository, what: str, **given: object) -> dict:
    action = ACTIONS[what]
    return action.run(repository, parse(action, msgspec.json.encode(given)))


def asked(pairs: Pairs, **given: object) -> dict[str, object]:
    return {"pairs": as_csv(pairs).encode(), "target": "y", "incident": "i1", **given}


@pytest.mark.parametrize("ratio", ["spectral", "grulsif"])
def test_fit_to_an_incident(tmp_path, ratio):
    """The values since the onset come from the case file, in the sensor's units; the model is kept."""
    repository = shelf_of(tmp_path, case(moved()))
    told = ask(repository, "fit", **asked(labelled(), ratio=ratio, model="line", page=True))
    model = AdaptedModel.decode(told["file"])
    fresh = moved(2000, seed=9)

    assert (told["node"], told["name"], told["version"], told["values"]) == ("n0", "n0.y", 1, 150)
    assert told["error_after"] < told["error_before"]
    assert np.mean((model.predict(fresh) - curve(fresh[:, 0])) ** 2) < 0.5
    assert b"Adaptation of y" in told["page"]
    (shown,) = ask(repository, "show")["models"]
    assert (shown["name"], shown["incident"], shown["target"]) == ("n0.y", "i1", "y")
    assert ask(repository, "export", name="n0.y")["file"] == told["file"]
    assert ask(repository, "fit", **asked(labelled(), node="n1", name="n0.y"))["version"] == 2
    several = ask(repository, "fit", **asked(two(), target=["y", "z"], model="line"))
    assert (several["name"], several["error_after"].keys()) == ("n0.y+z", {"y", "z"})
    assert [one["target"] for one in ask(repository, "show")["models"]] == ["y", "y, z"]
    ask(repository, "forget", name="n0.y+z")
    assert ask(repository, "forget", name="n0.y") == {"forgotten": "n0.y"}
    assert ask(repository, "show") == {"models": []}


def test_components_by_name(tmp_path):
    """Features are the node's components, in any order; GRULSIF wants all of them."""
    pairs = replace(labelled(d=2), features=("flow", "heat"))
    repository = shelf_of(tmp_path, case(moved(d=2), components=("flow", "heat")))

    for given, features in (
        ([], ("flow", "heat")),
        (["heat", "flow"], ("heat", "flow")),
        (["flow"], ("flow",)),
    ):
        told = ask(repository, "fit", **asked(pairs, features=given))
        assert AdaptedModel.decode(told["file"]).features == features
    with pytest.raises(ActionError, match="the ratio of GRULSIF is that of all components: flow, heat"):
        ask(repository, "fit", **asked(pairs, features=["flow"], ratio="grulsif"))
    with pytest.raises(ActionError, match=r"'c0' is no component of n0 \(components: flow, heat\)"):
        ask(repository, "fit", **asked(pairs, features=["c0"]))


def test_incidents_refused(tmp_path):
    """Unknown incident, unknown node, values without a way back, too few of them: a clear word, no model."""
    repository = shelf_of(tmp_path, case(moved()), replace(case(moved(), plain=False), incident="i2"),
                     replace(case(moved(9)), incident="i3"))  # fmt: skip
    with pytest.raises(ActionError, match="there is no case file of an incident 'i9'"):
        ask(repository, "fit", **asked(labelled(), incident="i9"))
    with pytest.raises(ActionError, match=r"has no values of 'n7' \(it has those of n0, n1, n2\)"):
        ask(repository, "fit", **asked(labelled(), node="n7"))
    with pytest.raises(ActionError, match="have no way back to the sensor"):
        ask(repository, "fit", **asked(labelled(), incident="i2"))
    with pytest.raises(Refused, match="only 9 values since the change"):
        ask(repository, "fit", **asked(labelled(), incident="i3"))
    with pytest.raises(ActionError, match="there is no model 'm'"):
        ask(repository, "export", name="m")
    with pytest.raises(ActionError, match="there is no model 'm'"):
        ask(repository, "forget", name="m")
    with pytest.raises(ActionError, match="least_size"):
        ask(repository, "fit", **asked(labelled(), least_size=1.0))
    assert ask(repository, "show") == {"models": []}


def test_incident_on_the_command_line(files):
    """Without a daemon the command opens the state itself; the model is in it and in the file."""
    path = write_config(files)
    folder = Path(yaml.safe_load(path.read_text())["state"]["directory"])
    shelf_of(folder, case(moved()))._store.close()
    (files / "wrong.csv").write_text("x,y\n1,2\nabc,3\n")
    told = refused("fit", files / "wrong.csv", "--target", "y", "--incident", "i1", "-o", files / "n.json",
                   "--config", path)  # fmt: skip
    run("fit", files / "pairs.csv", "--target", "y", "--incident", "i1", "-o", files / "m.json", "--config",
        path, "--report", files / "r.html")  # fmt: skip

    assert told.startswith(f"detector: {files / 'wrong.csv'}, line 3: x is 'abc'")
    assert AdaptedModel.load(files / "m.json").about["incident"] == "i1"
    assert "Adaptation of y" in (files / "r.html").read_text()
    assert ask(Repository(Store(folder)), "show")["models"][0]["name"] == "n0.y"
    wrong = ("fit", files / "pairs.csv", "--target", "y", "-o", files / "n.json", "--config", path)
    assert "--reference belongs to --values" in refused(
        *wrong, "--incident", "i1", "--reference", files / "values.csv", code=2
    )
    assert "--node and --name belong to --incident" in refused(
        *wrong, "--values", files / "values.csv", "--node", "n0", code=2
    )


@pytest.mark.parametrize("scheme", [("tikhonov",), ("iterated", "--order", "5"), ("cutoff",), ("landweber",)])
def test_schemes(files, scheme):
    """Every scheme adapts; they are not all the same model."""
    said = run("fit", files / "pairs.csv", "--target", "y", "--values", files / "values.csv", "-o",
               files / "m.json", "--model", "line", "--scheme", *scheme, "--json")  # fmt: skip
    facts = json.loads(said)
    assert facts["scheme"] == scheme[0]
    assert facts["error_after"] < facts["error_before"]
    model = AdaptedModel.load(files / "m.json")
    assert model.about["scheme"] == scheme[0]
    run("fit", files / "pairs.csv", "--target", "y", "--values", files / "values.csv", "-o",
        files / "default.json", "--model", "line", "--json")  # fmt: skip
    assert model.coefficients != AdaptedModel.load(files / "default.json").coefficients


def test_an_order_without_its_scheme_is_refused(files):
    said = refused("fit", files / "pairs.csv", "--target", "y", "--values", files / "values.csv", "-o",
                   files / "m.json", "--scheme", "cutoff", "--order", "2")  # fmt: skip
    assert "order: 'cutoff' has none; 'iterated' has" in said
