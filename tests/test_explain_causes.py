"""Explanations name the cause behind a helper: its caller, a shared view, a key, a bound, a length, a NaN."""

from __future__ import annotations

import pytest
from tests.failing import Program, explained

STEPS = """
    import torch
    from torch import nn
    def descend(optimizer, loss):
        loss.backward()
        optimizer.step()
    def run():
        actor, critic = nn.Linear(3, 3), nn.Linear(3, 1)
        first = torch.optim.SGD(critic.parameters(), lr=0.1)
        second = torch.optim.SGD(actor.parameters(), lr=0.1)
        x = torch.ones(2, 3)
        value, policy = critic(x).mean(), critic(actor(x).tanh()).mean()
        descend(first, value)
        descend(second, policy)
"""


def test_caller_of_a_helper_is_the_recorded_one_of_several(program: Program) -> None:
    note = explained(program, STEPS)
    assert "in place at model.py:6 optimizer.step() called at model.py:13" in note
    assert "called at model.py:14" not in note  # the failing stack shows it


def test_caller_is_not_named_for_a_constructor(program: Program) -> None:
    note = explained(
        program,
        """
        import torch
        from torch import nn
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(4, 2)
            def forward(self, x):
                return self.layer(x)
        def run():
            net = Net()
            return net(torch.ones(2, 3))
        """,
    )
    assert "layer.weight made at model.py:7" in note
    assert "called at" not in note


def test_view_of_a_tensor_that_changes_later_is_named_with_a_copy(program: Program) -> None:
    note = explained(
        program,
        """
        import torch
        class Memory:
            def __init__(self):
                self.rows = torch.ones(4, 3)
            def read(self):
                return self.rows[:2]
            def write(self, row):
                self.rows[0] = row
        def run():
            memory, weight = Memory(), torch.ones(3, requires_grad=True)
            score = memory.read() @ weight
            memory.write(torch.zeros(3))
            score.sum().backward()
        """,
    )
    assert "shared without a copy at model.py:7 self.rows[:2] " in note
    assert "a copy in line 7 does as well: self.rows[:2].clone()" in note


def keys_note(program: Program, rename: str) -> str:
    return explained(
        program,
        f"""
        import torch
        from torch import nn
        def rename(key):
            return {rename}
        def run():
            saved = nn.Sequential(nn.Linear(2, 2)).state_dict()
            state = {{rename(key): value for key, value in saved.items()}}
            nn.Sequential(nn.Linear(2, 2)).load_state_dict(state)
        """,
    )


@pytest.mark.parametrize(
    ("rename", "difference"),
    [
        ('"module." + key', "the given keys have the prefix 'module.', which the model does not have"),
        ("key[2:]", "the given keys lack the prefix '0.'"),
        ('key.replace("0", "first")', "the given keys have other names: 'first' for '0'"),
    ],
)
def test_keys_of_a_state_are_compared_and_followed_to_what_renames_them(
    program: Program, rename: str, difference: str
) -> None:
    note = keys_note(program, rename)
    assert difference in note
    assert f"each key comes from model.py:5 {rename}" in note
    assert "each key may come from model.py:7 nn.Sequential(nn.Linear(2, 2)).state_dict()" in note


def test_model_with_more_layers_than_the_state_says_which(program: Program) -> None:
    note = explained(
        program,
        """
        import torch
        from torch import nn
        class Net(nn.Module):
            def __init__(self, depth):
                super().__init__()
                self.blocks = nn.ModuleList([nn.Linear(2, 2) for _ in range(depth)])
        def run():
            Net(3).load_state_dict(Net(1).state_dict())
        """,
    )
    assert "the model has 2 layers more: blocks.1, blocks.2" in note


def test_keys_that_a_loop_assigns_are_followed(program: Program) -> None:
    note = explained(
        program,
        """
        from torch import nn
        def run():
            fresh = {}
            for key, value in nn.Linear(2, 2).state_dict().items():
                key = key.upper()
                fresh[key] = value
            nn.Linear(2, 2).load_state_dict(fresh)
        """,
    )
    assert "each key comes from model.py:6 key.upper()" in note


BOXES = """
    import torch
    from torch.nn import functional as F
    def load():
        boxes = []
        for x, y, w, h in [(1, 1, 4, 4), (9, 9, 3, 3)]:
            boxes.append([x, y, w, h])
        return torch.zeros(1), torch.tensor(boxes)
    class Data(torch.utils.data.Dataset):
        def __len__(self):
            return 1
        def __getitem__(self, i):
            return i, *load()
    def crops(image, boxes):
        return [F.adaptive_max_pool2d(image[:, b:d, a:c], 1) for a, b, c, d in boxes.tolist()]
    def run():
        _, _, boxes = Data()[0]
        crops(torch.ones(2, 16, 16), boxes)
"""


def test_empty_slice_has_its_bounds_and_where_they_come_from(program: Program) -> None:
    note = explained(program, BOXES)
    assert "image[:, b:d, a:c] is empty: b:d is 9:3, a:c is 9:3" in note
    assert "d comes from model.py:7 [x, y, w, h]" in note


def test_length_of_zero_has_its_index_and_the_condition_that_lets_it_in(program: Program) -> None:
    note = explained(
        program,
        """
        import torch
        from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence
        def clean(texts):
            kept = []
            for text in texts:
                words = [word for word in text.split() if word != "the"]
                if text:
                    kept.append(words)
            return kept
        def run():
            rows = [torch.zeros(len(words), 1) for words in clean(["a b", "the", "c"])]
            lengths = torch.tensor([len(row) for row in rows])
            pack_padded_sequence(pad_sequence(rows, batch_first=True), lengths, True, enforce_sorted=False)
        """,
    )
    assert "✗ lengths[1] is 0" in note
    assert "lengths may come from model.py:8 text" in note


def test_parameters_with_nan_are_named_with_the_call_that_must_produce_it(program: Program) -> None:
    note = explained(
        program,
        """
        import torch
        from torch import nn
        def scaled(x):
            return x * x[x > 2].mean()
        def run():
            model = nn.Linear(1, 2)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for size in (3, 1):
                model(scaled(torch.ones(size, 1) + torch.arange(size)[:, None])).sum().backward()
                optimizer.step()
            torch.multinomial(model(torch.ones(1, 1)).softmax(-1), 1)
        """,
    )
    assert "the parameter weight holds NaN; since which call is not recorded" in note
    assert "NaN made from no element at model.py:5 x[x > 2].mean() f32[0] called at model.py:10" in note
    assert "insitu.guard()" in note


def test_both_operands_of_a_sum_that_leaves_its_range_are_followed(program: Program) -> None:
    note = explained(
        program,
        """
        import torch
        def select(nodes, edges):
            keep = nodes > 0
            inside = keep[edges[0]] & keep[edges[1]]
            return nodes[keep], edges[:, inside]
        def run():
            shift = 0
            all_nodes, all_edges = [], []
            for _ in range(2):
                nodes, edges = select(torch.tensor([0, 5, 6]), torch.tensor([[1, 0], [2, 1]]))
                all_nodes.append(nodes)
                all_edges.append(edges + shift)
                shift += len(nodes)
            return torch.cat(all_nodes).index_select(0, torch.cat(all_edges, 1)[1])
        """,
    )
    assert "model.py:6 edges[:, inside]" in note
    assert "model.py:14 shift += len(nodes)" in note


def test_numbers_that_do_not_become_labels_are_not_named(program: Program) -> None:
    note = explained(
        program,
        """
        import torch
        from torch.nn import functional as F
        SIDE = 32
        def run():
            mask = F.interpolate(torch.full((1, 1, 2, 2), 9.0), size=(SIDE, SIDE)).flip(-1)[0].long()
            F.cross_entropy(torch.zeros(1, 3, 32, 32), mask)
        """,
    )
    assert "may come from model.py:4" not in note
    assert " -1" not in note.partition("✗")[2]


def test_only_the_lengths_that_the_error_names_are_judged(program: Program) -> None:
    note = explained(
        program,
        """
        import torch
        from torch.nn import functional as F
        def run():
            scores = torch.zeros(9, 2, 5).log_softmax(-1)
            long, short = torch.tensor([9, 9]), torch.tensor([3, 4])
            F.ctc_loss(scores, torch.ones(2, 3, dtype=torch.long), long, short)
        """,
    )
    assert "long[" not in note


def test_nan_is_not_blamed_on_a_call_if_no_nan_was_seen(program: Program) -> None:
    note = explained(
        program,
        """
        import torch
        def run():
            torch.zeros(0).mean()
            torch.distributions.Normal(torch.zeros(1), -torch.ones(1), validate_args=True)
        """,
    )
    assert "NaN" not in note.replace("NaN or", "")
