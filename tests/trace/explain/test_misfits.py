"""What does not fit, found in calls made by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from insitu.trace.event import Call, ModuleFacts, TensorFacts, tensors
from insitu.trace.explain.case import Case, MissingValue, NamedOperand
from insitu.trace.explain.explanation import Misfit
from insitu.trace.explain.misfits import THEMES, find_misfits


def t(*shape: int, dtype: str = "f32", device: str = "cpu", **more: Any) -> TensorFacts:
    return TensorFacts(0, shape, dtype, device, **more)


def case(name: str, *args: Any, message: str = "", limits: Any = None, **kwargs: Any) -> Case:
    """A failed call whose tensors are named a, b, c in order."""
    call = Call(0, None, "function", name, args=args, kwargs=kwargs, raised="RuntimeError", message=message)
    given = [*tensors(args), *tensors(kwargs)]
    operands = tuple(NamedOperand(chr(97 + index), facts) for index, facts in enumerate(given))
    return Case("RuntimeError", message, call, operands, limits=limits or (lambda facts: None))


def only(found: tuple[Misfit, ...]) -> Misfit:
    assert len(found) == 1
    return found[0]


LONG_TARGET = "expected target dtype to be Long or Byte, but got Double"
LONG_INDICES = (
    "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; "
    "but got torch.FloatTensor instead (while checking arguments for embedding)"
)
FEW = "Expected more than 1 value per channel when training, got input size torch.Size([1, 3])"
FOUND = [
    (case("torch.Tensor.add", t(2, 3), t(4, 3)), "dimension -2: 2 and 4 differ and neither is 1"),
    (case("torch.Tensor.__rsub__", t(3), t(2)), "dimension -1: 3 and 2 differ and neither is 1"),
    (case("torch.Tensor.add_", t(3), t(2, 3)), "the result is larger than left, which it is written into"),
    (case("torch.where", t(2, 2), t(2, 3), t(3)), "dimension -1: 2 and 3 differ and neither is 1"),
    (case("torch.Tensor.matmul", t(2, 3), t(4, 5)), "the last dimension of left is 3, right has 4 rows"),
    (case("torch.Tensor.matmul", t(2, 3), t(4)), "the last dimension of left is 3, right has 4 elements"),
    (case("torch.bmm", t(2, 3, 4), t(3, 4, 5)), "left has 2 matrices, right has 3"),
    (
        case(
            *("torch.Tensor.matmul", t(3, 4, 5), t(2, 5, 6)),
            message="The size of tensor a (3) must match the size of tensor b (2) at non-singleton dimension 0",
        ),
        "dimension -3: 3 and 2 differ and neither is 1",
    ),
    (
        case(
            *("torch.nn.functional.scaled_dot_product_attention", t(2, 4, 5, 8), t(2, 2, 6, 8), t(2, 2, 6, 8)),
            message="The size of tensor a (4) must match the size of tensor b (2) at non-singleton dimension 1",
        ),
        "dimension -3, heads: query has 4, key has 2, value has 2",
    ),
    (
        case("torch.gather", t(2, 4), 1, t(2, 1), message="index 4 is out of bounds for dimension 1 with size 4"),
        "index 4 in dimension 1, whose size is 4: it has 0 … 3",
    ),
    (
        case("torch.nn.functional.one_hot", t(4), 3, message="Class values must be smaller than num_classes"),
        "there are 3 classes (0 … 2)",
    ),
    (
        case("torch.nn.functional.linear", t(8, 10), t(4, 12), t(4)),
        "the last dimension of input is 10, the layer takes 12",
    ),
    (case("torch.addmm", t(4), t(8, 10), t(12, 4)), "the last dimension of input is 10, the layer takes 12"),
    (case("torch.einsum", "ij,jk->ik", t(2, 3), t(4, 5)), "j is 3 in ij and 4 in jk"),
    (case("torch.einsum", "ij,jk", t(2, 3), t(5)), "jk names 2 dimensions, the tensor has 1"),
    (case("torch.cat", [t(2, 3), t(2, 3), t(4, 3)], 1), "dimension 0: 2 and 4 differ; only dimension 1 may"),
    (case("torch.cat", [t(2, 3), t(3)]), "[0] has 2 dimensions, [1] has 1"),
    (case("torch.vstack", [t(2, 3), t(4, 3), t(2, 5)]), "dimension 1: 3 and 5 differ; only dimension 0 may"),
    (case("torch.vstack", [t(3), t(2, 3), t(4)]), "dimension 1: 3 and 4 differ; only dimension 0 may"),
    (case("torch.hstack", [t(2, 3), t(2, 4), t(3, 4)]), "dimension 0: 2 and 3 differ; only dimension 1 may"),
    (case("torch.Tensor.__rmatmul__", t(4, 5), t(2, 3)), "the last dimension of left is 3, right has 4 rows"),
    (case("torch.conv2d", t(1, 3, 8, 8), t(3)), "the weight has 1 of the 4 dimensions that conv2d takes"),
    (case("torch.conv3d", t(1, 3, 8, 8, 8), t(3, 3)), "the weight has 2 of the 5 dimensions that conv3d takes"),
    (case("torch.nn.functional.linear", t(1, 3), t()), "the weight has 0 of the 2 dimensions that linear takes"),
    (
        case("MultiheadAttention", message="The shape of the attn_mask is torch.Size([3, 6]), but should be (6, 6)."),
        "attn_mask is [3, 6] and should be [6, 6]",
    ),
    (
        Case("TypeError", "operand: 'Tensor' and 'NoneType'", missing=(MissingValue("h", returned_by="Net.forward"),)),
        "h is None: Net.forward returned nothing",
    ),
    (Case("TypeError", "'NoneType' object is not callable", missing=(MissingValue("f"),)), "f is None"),
    (Case("ValueError", "too many values to unpack (expected 2)", unpacked=(1, 2, 3)), "three values for two names"),
    (Case("ValueError", "too many values to unpack (expected 1)"), "more values for one name"),
    (
        Case("ValueError", "not enough values to unpack (expected 2, got 1)", unpacked=t(1, 4)),
        "one value for two names: a tensor gives as many as its first dimension",
    ),
    (case("torch.stack", [t(2), t(3)]), "dimension 0: 2 and 3 differ, and all must be of one shape"),
    (
        case("torch.Tensor.view", t(2, 3), 4, 5, message="shape '[4, 5]' is invalid for input of size 6"),
        "2 × 3 = 6 elements do not fit into 4 × 5 = 20",
    ),
    (case("torch.Tensor.view", t(3), 7), "3 elements do not fit into 7"),
    (
        case("torch.Tensor.reshape", t(2, 3), -1, 4),
        "2 × 3 = 6 elements do not fit into -1 × 4: 6 is not a multiple of 4",
    ),
    (
        case("torch.Tensor.view", t(3, 2, strides=(1, 3)), 6, message="view size is not compatible with input"),
        "the view would have to copy: the strides of the tensor are 1, 3",
    ),
    (case("torch.Tensor.expand", t(2, 3), 4, 3), "dimension -2 is 2, and only 1 can be expanded to 4"),
    (case("torch.Tensor.permute", t(2, 3, 4), 0, 2), "the tensor has 3 dimensions, the order names 2"),
    (
        case("torch.conv2d", t(1, 2, 8, 8), t(4, 3, 3, 3), t(4), (1, 1), (0, 0), (1, 1), 1),
        "the input has 2 channels, the layer takes 3",
    ),
    (
        case("torch.conv2d", t(1, 3, 4, 9), t(4, 3, 5, 5), None, (1, 1), (0, 0), (1, 1), 1),
        "the kernel takes 5, the input has 4 with a padding of 0",
    ),
    (case("torch.conv1d", t(1, 2, 8, 8), t(4, 2, 3)), "the input has 4 dimensions, conv1d takes 3 (with the batch)"),
    (case("torch.nn.functional.layer_norm", t(2, 5, 8), (5,)), "the last dimension must be 5"),
    (
        case("torch.nn.functional.batch_norm", t(2, 3), t(5), t(5)),
        "the input has 3 channels, the layer takes 5",
    ),
    (
        case("torch.nn.functional.batch_norm", t(1, 3), t(3), t(3), message=FEW),
        "one value for each channel has no deviation: training needs a batch of two or more",
    ),
    (
        case("torch.nn.functional.scaled_dot_product_attention", t(2, 5, 8), t(2, 7, 8), t(2, 7, 8), attn_mask=t(5, 5)),
        "attn_mask must broadcast to 2, 5, 7 (query, key)",
    ),
    (
        case("torch.nn.functional.cross_entropy", t(4, 3), t(5, dtype="i64")),
        "4 samples in the scores, 5 in the targets",
    ),
    (
        case("torch.nn.functional.linear", t(2, 3, dtype="f64"), t(4, 3), message="must have the same dtype"),
        "the dtypes differ: a is f64, b is f32",
    ),
    (case("torch.Tensor.add", t(2, 3), t(3, device="meta")), "the devices differ: a is on cpu, b is on meta"),
    (
        case("torch.Tensor.__getitem__", t(2, 3), 5, message="index 5 is out of bounds for dimension 0 with size 2"),
        "index 5 in dimension 0, whose size is 2: it has -2 … 1",
    ),
    (
        case(
            "torch.Tensor.split", t(3), [1, 1], message="split_sizes to sum exactly to 3 (input tensor's size at "
            "dimension 0), but got split_sizes=[1, 1]",
        ),
        "the parts 1, 1 add up to 2, dimension 0 is 3",
    ),
    (
        case("torch.Tensor.transpose", t(2, 3), 0, 2, message="Dimension out of range (expected to be in range of "
             "[-2, 1], but got 2)"),
        "dimension 2 does not exist: there are -2 … 1",
    ),
    (
        case("torch.Tensor.mean", t(2, dtype="i64"), message="mean(): could not infer output dtype."),
        "a holds integers (i64)",
    ),
    (
        case("torch.Tensor.gather", t(6, 2), 1, t(6, dtype="i64")),
        "the input has 2 dimensions, the index 1",
    ),
    (
        case("torch.linalg.inv", t(2, 3), message="A must be batches of square matrices, but they are 2 by 3 matrices"),
        "the matrix has 2 rows and 3 columns and must be square",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("failed", "text"), FOUND, ids=[text for _, text in FOUND])
def test_misfit_of_each_mistake_is_found(failed: Case, text: str) -> None:
    assert only(find_misfits(failed)).text == text


@pytest.mark.parametrize(("failed", "text"), FOUND, ids=[text for _, text in FOUND])
def test_no_check_raises(failed: Case, text: str) -> None:
    for theme in THEMES:
        for check in theme.CHECKS:
            check.run(failed)


@pytest.mark.parametrize(
    "fitting",
    [
        case("torch.Tensor.add", t(2, 3), t(1, 3)),
        case("torch.Tensor.matmul", t(5, 2, 3), t(3, 4)),
        case("torch.nn.functional.linear", t(2, 3), t(4, 3), t(4)),
        case("torch.cat", [t(2, 3), t(2, 5)], 1),
        case("torch.einsum", "ij,jk", t(2, 3), t(3, 4)),
        case("torch.Tensor.view", t(2, 3), 3, -1),
        case("torch.conv2d", t(1, 3, 8, 8), t(4, 3, 3, 3)),
        case("torch.nn.functional.layer_norm", t(2, 5), (5,)),
        case("torch.Tensor.expand", t(2, 1), 2, 4),
        case("torch.hstack", [t(2), t(3)]),
        case("torch.vstack", [t(3), t(2, 3)]),
        case("torch.nn.functional.cross_entropy", t(5), t(2, dtype="i64")),
        case("torch.nn.functional.batch_norm", t(1, 3), t(3, dtype="f64"), t(3), message="weight should contain 3"),
        case("torch.Tensor.view", t(2, 3), -2, 3),
        case("torch.Tensor.view", t(2, 3), -1, -1),
        Case("KeyError", "'x'"),
    ],
)
def test_calls_without_a_mistake_have_no_misfit(fitting: Case) -> None:
    assert find_misfits(fitting) == ()


def test_check_that_raises_does_not_stop_the_others() -> None:
    odd = t(2, 3)
    odd.shape = None  # type: ignore[assignment]  # a tensor whose shape nobody can tell
    failed = case("torch.Tensor.add", odd, t(2, 3), message="they are on a different device")
    failed.operands[1].facts.device = "meta"
    assert only(find_misfits(failed)).text == "the devices differ: a is on cpu, b is on meta"


def test_broadcasting_misfit_marks_the_dimension_from_the_right() -> None:
    found = only(find_misfits(case("torch.Tensor.mul", t(2, 6, 24, 24), t(6, 24, 25))))
    assert [(row.role, row.shape, row.name) for row in found.rows] == [
        ("left", (2, 6, 24, 24), "a"),
        ("right", (6, 24, 25), "b"),
    ]
    assert found.dimension == -1


def test_index_misfit_shows_the_values_and_the_rows_of_the_table() -> None:
    given, table = t(3, dtype="i64"), t(10, 4)
    message = "index out of range in self"
    failed = case("torch.nn.functional.embedding", given, table, message=message, limits=lambda facts: (-1.0, 12.0))
    assert only(find_misfits(failed)).text == "a holds -1 … 12; b has 10 rows (0 … 9)"
    failed = case("torch.nn.functional.embedding", given, table, message=message, limits=lambda facts: (0.0, 1234567.0))
    assert only(find_misfits(failed)).text == "a holds 0 … 1234567; b has 10 rows (0 … 9)"


def test_function_that_takes_the_table_first_has_the_same_misfit() -> None:
    table, given = t(10, 4), t(3, dtype="i64")
    failed = case("torch.embedding", table, given, message="index out of range in self", limits=lambda facts: (0, 12))
    assert only(find_misfits(failed)).text == "b holds 0 … 12; a has 10 rows (0 … 9)"


@pytest.mark.parametrize(
    ("failed", "name"),
    [
        (case("torch.nn.functional.cross_entropy", t(4, 3), t(4, dtype="f64"), message=LONG_TARGET), "b"),
        (case("torch.nn.functional.embedding", t(4), t(9, 3, dtype="f16"), message=LONG_INDICES), "a"),
        (case("torch.embedding", t(9, 3, dtype="f16"), t(4), message=LONG_INDICES), "b"),
        (case("torch.Tensor.__getitem__", t(4), t(2), message="tensors used as indices must be long, int, byte"), "b"),
        (case("torch.nn.functional.one_hot", t(4), message="only applicable to index tensor of type LongTensor"), "a"),
    ],
)
def test_operand_that_must_be_integer_is_not_converted_to_another_float(failed: Case, name: str) -> None:
    found = only(find_misfits(failed))
    assert found.text == f"{name} is {found.text.split()[2]} and must hold integers"
    assert found.way_out == f"{name}.long()"


def test_index_range_of_an_unknown_function_is_not_shown() -> None:
    failed = Case("RuntimeError", "index 5 is out of bounds for dimension 1 with size 4")
    assert only(find_misfits(failed)).text == "index 5 in dimension 1, whose size is 4"


def test_stored_value_that_does_not_fit_its_place_is_a_misfit() -> None:
    expanded = (
        "must match the existing size (3) at non-singleton dimension 0.  Target sizes: [2, 4].  Tensor sizes: [3, 4]"
    )
    masked = "value tensor of shape [3, 4] cannot be broadcast to indexing result of shape [2, 4]"
    for message in (expanded, masked):
        found = only(find_misfits(case("torch.Tensor.__setitem__", t(3, 4), 0, t(3, 4), message=message)))
        assert found.text == "dimension -2: the place has 2, the value 3"
        assert [(row.role, row.shape, row.name) for row in found.rows] == [
            ("place", (2, 4), ""),
            ("value", (3, 4), "b"),
        ]


def test_targets_beyond_the_classes_are_a_misfit() -> None:
    message = "Target 5 is out of bounds."
    scores, target = t(8, 5), t(8, dtype="i64")
    failed = case("torch.nn.functional.cross_entropy", scores, target, message=message, limits=lambda facts: (1.0, 5.0))
    assert only(find_misfits(failed)).text == "b holds 1 … 5; there are 5 classes (0 … 4)"


def test_dimension_of_an_index_includes_sliced_dimensions() -> None:
    from insitu.trace.event import Word

    key = (Word(":"), t(1, dtype="i64"))
    message = "index 7 is out of bounds for dimension 0 with size 3"
    failed = case("torch.Tensor.__getitem__", t(2, 3), key, message=message)
    assert only(find_misfits(failed)).text == "index 7 in dimension 1, whose size is 3: it has -3 … 2"


@pytest.mark.parametrize(
    ("failed", "words"),
    [
        (case("torch.Tensor.matmul", t(2, 10, 16), t(2, 10, 16)), "right.transpose(-2, -1) would fit"),
        (case("torch.Tensor.expand", t(4), 4, 9), ".unsqueeze(-1) first would fit"),
        (case("torch.Tensor.view", t(6, 4), 3, 4), "with -1 or 6 in place of 3 it would fit"),
        (case("torch.conv2d", t(4, 24, 32, 3), t(8, 3, 3, 3)), "the channels come last: .permute(0, 3, 1, 2)"),
        (case("torch.nn.functional.layer_norm", t(2, 12, 8), (12,)), "12 is dimension -2: transpose it to the end"),
        (case("torch.Tensor.gather", t(6, 2), 1, t(6, dtype="i64")), "b.unsqueeze(-1)"),
        (
            case("torch.nn.functional.linear", t(2, 3, dtype="i64"), t(4, 3, type="Parameter"), message="same dtype"),
            "a.to(torch.float32)",
        ),
    ],
)
def test_misfit_says_in_words_what_would_fit(failed: Case, words: str) -> None:
    assert only(find_misfits(failed)).way_out == words


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("grad can be implicitly created only for scalar outputs", "backward() needs a single number"),
        (
            "one of the variables needed for gradient computation has been modified by an inplace operation: "
            "[torch.FloatTensor [2, 3]], which is output 0 of Exp, is at version 1",
            "a tensor of shape [2, 3] that the backward pass needs was changed in place",
        ),
        (
            "Function FooBackward returned an invalid gradient at index 1 - got [2] but expected shape compatible "
            "with [3]",
            "Foo.backward returns a gradient of shape [2] for input 1, whose shape is [3]",
        ),
        (
            "a leaf Variable that requires grad is being used in an in-place operation.",
            "a leaf that requires a gradient cannot be changed in place while gradients are on",
        ),
    ],
)  # fmt: skip
def test_errors_of_autograd_have_a_misfit(message: str, text: str) -> None:
    assert only(find_misfits(case("torch.Tensor.backward", t(4), message=message))).text == text


def test_misfit_of_a_recurrent_layer_shows_its_states() -> None:
    failed = case(
        "LSTM", t(9, 4, 12), (t(1, 9, 12), t(1, 9, 12)), message="Expected hidden[0] size (1, 4, 12), got [1, 9, 12]"
    )
    assert failed.call is not None
    failed.call.module = ModuleFacts("rnn", "LSTM", settings={"batch_first": True})
    found = only(find_misfits(failed))
    assert [row.role for row in found.rows] == ["input", "state", "cell"]
    assert found.way_out == "a state is [layers, batch, features], even with batch_first"


def test_checkpoint_of_another_model_shows_the_first_entry() -> None:
    message = (
        "Error(s) in loading state_dict for Net:\n\tsize mismatch for head.weight: copying a param with shape "
        "torch.Size([10, 16]) from checkpoint, the shape in current model is torch.Size([3, 16])."
    )
    assert only(find_misfits(Case("RuntimeError", message))).text == (
        "head.weight is [10, 16] in the checkpoint and [3, 16] in the model"
    )


def test_words_for_arrays_use_numpy() -> None:
    flat = find_misfits(case("numpy.matmul", t(2, 3, type="ndarray"), t(4, 3, type="ndarray")))
    deep = find_misfits(case("numpy.matmul", t(7, 2, 3, type="ndarray"), t(7, 4, 3, type="ndarray")))
    assert [only(found).way_out for found in (flat, deep)] == [
        "right.T would fit",
        "np.swapaxes(right, -2, -1) would fit",
    ]


def test_side_that_equals_the_channels_by_chance_has_no_way_out() -> None:
    found = only(find_misfits(case("torch.conv2d", t(2, 6, 4, 4), t(8, 2, 3, 3), groups=2)))
    assert (found.text, found.way_out) == ("the input has 6 channels, the layer takes 4", "")


def test_words_to_transpose_classes_need_classes_in_the_last_dimension() -> None:
    wrong, last = t(2, 8, dtype="i64"), t(2, 5, dtype="i64")
    assert only(find_misfits(case("torch.nn.functional.nll_loss", t(2, 5, 7), wrong))).way_out == ""
    assert "transpose them" in only(find_misfits(case("torch.nn.functional.nll_loss", t(2, 5, 7), last))).way_out


def test_an_expression_gets_brackets_before_a_dot() -> None:
    message = "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
    failed = case("torch.Tensor.numpy", t(3), message=message)
    renamed = replace(failed, operands=(NamedOperand("w * 2", failed.operands[0].facts),))
    assert only(find_misfits(renamed)).way_out == "(w * 2).detach().numpy()"


@pytest.mark.parametrize("operands", [(), (NamedOperand("", t(3)),)])
def test_a_tensor_without_a_name_is_not_part_of_the_words(operands: tuple[NamedOperand, ...]) -> None:
    failed = case("torch.Tensor.numpy", message="Can't call numpy() on Tensor that requires grad.")
    found = only(find_misfits(replace(failed, operands=operands)))
    assert (found.text, found.way_out) == ("a tensor requires a gradient", ".detach().numpy()")
