"""A guard finds labels and indices that are out of range before the call that takes them; the program's error stays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import insitu
from insitu.trace.findings import Finding
from insitu.trace.step_findings import IndicesOutOfRange

pytestmark = pytest.mark.usefixtures("one_thread")


def findings(run: Callable[[], object], *, allow: str | tuple[str, ...] = ()) -> list[Finding]:
    """What a guard finds in a program that may raise an error of its own."""
    with insitu.guard(action="record", allow=allow) as guard:
        try:
            run()
        except (IndexError, RuntimeError, ValueError) as error:
            assert not isinstance(error, insitu.InsituError)
    return guard.findings


def from_one() -> Tensor:
    labels = torch.arange(6) % 3 + 1
    return labels.view(2, 3).flatten()


CASES: dict[str, tuple[Callable[[], object], int]] = {
    "cross_entropy": (lambda: F.cross_entropy(torch.randn(6, 3), from_one()), 3),
    "cross_entropy by name": (lambda: F.cross_entropy(input=torch.randn(6, 3), target=from_one()), 3),
    "cross_entropy of a module": (lambda: nn.CrossEntropyLoss()(torch.randn(6, 3), from_one()), 3),
    "cross_entropy of one sample": (lambda: F.cross_entropy(torch.randn(3), from_one()[2]), 3),
    "cross_entropy of images": (lambda: F.cross_entropy(torch.randn(1, 3, 2, 3), from_one().view(1, 2, 3)), 3),
    "cross_entropy, negative": (lambda: F.cross_entropy(torch.randn(6, 3), from_one() - 3), 3),
    "nll_loss": (lambda: F.nll_loss(torch.randn(6, 3), from_one()), 3),
    "embedding": (lambda: nn.Embedding(3, 4)(from_one()), 3),
    "embedding_bag": (lambda: F.embedding_bag(from_one().view(2, 3), torch.randn(3, 4)), 3),
    "one_hot": (lambda: F.one_hot(from_one(), 3), 3),
    "one_hot by name": (lambda: F.one_hot(from_one(), num_classes=3), 3),
}


@pytest.mark.parametrize("name", CASES)
def test_indices_out_of_range_are_found_with_the_call_that_made_them(name: str) -> None:
    run, count = CASES[name]
    (finding,) = findings(run)
    assert isinstance(finding, IndicesOutOfRange) and finding.count == count
    is_found = finding.lowest < 0 or finding.highest == count
    assert is_found and finding.source is not None and finding.source.site is not None
    assert finding.severity == "warning"


def test_the_finding_says_the_range_the_classes_and_the_line() -> None:
    def run() -> None:
        targets = from_one()
        F.cross_entropy(torch.randn(6, 3), targets)

    (finding,) = findings(run)
    first = from_one.__code__.co_firstlineno
    assert "targets holds 1 … 3, and F.cross_entropy has 3 classes (0 … 2)" in finding.text
    assert f"test_guard_indices.py:{first + 1}: torch.arange(6) % 3 + 1" in finding.text


def test_the_error_of_the_program_comes_as_before() -> None:
    scores, labels = torch.randn(6, 3), from_one()
    with pytest.raises(IndexError) as plain:
        F.cross_entropy(scores, labels)
    with pytest.warns(insitu.InsituWarning, match="3 classes"), pytest.raises(IndexError) as guarded, insitu.guard():
        F.cross_entropy(scores, labels)
    assert str(guarded.value) == str(plain.value)


def test_labels_from_before_the_guard_have_no_source() -> None:
    labels = from_one()
    (finding,) = findings(lambda: F.cross_entropy(torch.randn(6, 3), labels))
    assert isinstance(finding, IndicesOutOfRange) and finding.source is None
    assert "not known" in finding.text


def test_labels_from_numpy_are_followed_to_the_first_call_of_torch() -> None:
    def run() -> None:
        labels = torch.from_numpy(np.array([1, 2, 3], np.int32)).long()
        F.cross_entropy(torch.randn(3, 3), labels)

    (finding,) = findings(run)
    assert isinstance(finding, IndicesOutOfRange)
    assert finding.source is not None and finding.source.name == "torch.Tensor.long"


def test_the_part_of_a_join_that_is_out_of_range_is_named() -> None:
    def run() -> None:
        good = torch.tensor([0, 1])
        wrong = torch.tensor([7, 0])
        F.cross_entropy(torch.randn(4, 3), torch.cat([good, wrong]))

    (finding,) = findings(run)
    assert "torch.tensor([7, 0])" in finding.text


HEALTHY: dict[str, Callable[[], object]] = {
    "in range": lambda: F.cross_entropy(torch.randn(3, 3), torch.tensor([0, 1, 2])),
    "ignored": lambda: F.cross_entropy(torch.randn(3, 3), torch.tensor([0, -100, 2])),
    "ignored, another number": lambda: F.nll_loss(torch.randn(2, 3), torch.tensor([0, 255]), ignore_index=255),
    "nothing": lambda: F.embedding(torch.empty(0, dtype=torch.long), torch.randn(3, 2)),
    "probabilities": lambda: F.cross_entropy(torch.randn(2, 3), torch.tensor([[0.0, 9.0, 1.0], [0.0, 0.0, 1.0]])),
    "classes in the wrong place": lambda: F.cross_entropy(torch.randn(2, 3, 9), torch.full((2, 3), 8)),
    "as many classes as there are": lambda: F.one_hot(torch.tensor([0, 5])),
    "meta": lambda: F.cross_entropy(torch.randn(2, 3, device="meta"), torch.tensor([7, 8], device="meta")),
    "bytes": lambda: F.nll_loss(torch.randn(2, 3), torch.tensor([2, 0], dtype=torch.uint8)),
    "vmap": lambda: torch.vmap(lambda table: F.embedding(torch.tensor([0, 1]), table))(torch.randn(2, 3, 4)),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_indices_in_range_are_no_finding(name: str) -> None:
    assert findings(HEALTHY[name]) == []


def test_indices_out_of_range_may_be_allowed() -> None:
    assert findings(lambda: F.one_hot(from_one(), 3), allow="one_hot") == []
