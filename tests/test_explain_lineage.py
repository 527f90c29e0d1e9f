"""Explanations walk back: to the call that introduced a size, a dtype or a device, and to what is carried over."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.failing import Program, explained


def test_size_is_followed_through_views_layers_and_functions(program: Program) -> None:
    note = explained(
        program,
        """
        import torch
        from torch import nn
        from torch.nn import functional as F
        def load():
            wave = torch.randn(8, 50)
            wave = F.pad(wave, (0, 1))
            return {"wave": wave}
        class Spectrum(nn.Module):
            def __init__(self):
                super().__init__()
                self.conv, self.norm = nn.Conv1d(1, 64, 3, padding=1), nn.BatchNorm1d(64)
            def forward(self, wave):
                x = self.norm(self.conv(wave.unsqueeze(1))).relu()
                return x.permute(0, 2, 1)
        def run():
            spectrum = Spectrum()(load()["wave"])
            target = torch.zeros(8, 50, 64)
            return (spectrum - target).square().mean()
        """,
    )
    assert "the 51 comes from model.py:7 F.pad(wave, (0, 1)) f32[8, 50] → f32[8, 51]" in note


def test_size_of_a_layer_comes_from_where_it_was_made(program: Program) -> None:
    note = explained(
        program,
        """
        import torch
        from torch import nn
        def run():
            encoder = nn.Linear(4, 24)
            head = nn.Linear(16, 2)
            x = encoder(torch.ones(3, 4))
            return head(x.relu())
        """,
    )
    assert "the 24 comes from model.py:5 nn.Linear(4, 24)" in note


def test_size_of_a_batch_comes_from_its_assignment(program: Program) -> None:
    note = explained(
        program,
        """
        import torch
        def run():
            data = torch.from_dlpack(torch.ones(6, 4))
            left = data.sum(1)
            return left.exp() + torch.zeros(5)
        """,
    )
    assert "the 6 comes from model.py:4 torch.from_dlpack(torch.ones(6, 4))" in note


def test_dtype_is_followed_to_numpy(program: Program) -> None:
    note = explained(
        program,
        """
        import numpy as np
        import torch
        from torch import nn
        def features():
            t = torch.from_numpy(np.linspace(0, 1, 12))
            return torch.stack([t.sin(), t.cos()], dim=1)
        def run():
            batch = features()[:6].unsqueeze(0)
            return nn.Linear(2, 4)(batch)
        """,
    )
    assert "f64 comes from model.py:6 torch.from_numpy(np.linspace(0, 1, 12))" in note
    assert "f32 since" not in note


def test_device_is_followed(program: Program) -> None:
    note = explained(
        program,
        """
        import torch
        from torch import nn
        def run():
            mask = torch.zeros(3, 3, device="meta")
            bias = mask.exp() * 2
            return nn.Linear(3, 3)(bias)
        """,
    )
    assert 'meta since model.py:5 torch.zeros(3, 3, device="meta")' in note


def test_tensor_that_is_carried_over_is_named(program: Program) -> None:
    note = explained(
        program,
        """
        import torch
        from torch import nn
        class Memory(nn.Module):
            def __init__(self):
                super().__init__()
                self.memory, self.proj = [], nn.Linear(32, 32)
            def forward(self, x):
                if self.memory:
                    x = torch.cat([self.memory[-1], x], dim=1)
                h = self.proj(x)
                self.memory.append(h[:, -8:])
                return h.mean()
        def run():
            model = Memory()
            for step in range(3):
                model(torch.randn(2, 8, 32)).backward()
        """,
    )
    assert "self.memory[-1] made before that, at model.py:12 h[:, -8:] f32[2, 8, 32]" in note
    assert "self.memory[-1] read after it, at model.py:10" in note


def test_sizes_that_were_computed_from_others_are_followed(program: Program) -> None:
    note = explained(
        program,
        """
        import torch
        from torch import nn
        def run():
            image = torch.rand(3, 1, 32, 32)[:, :, 1:-1, 1:-1]
            patches = nn.Conv2d(1, 8, 4, stride=4)(image).flatten(2).transpose(1, 2)
            tokens = torch.cat([torch.zeros(3, 1, 8), patches], dim=1)
            return tokens + torch.zeros(1, 65, 8)
        """,
    )
    assert "the 30 comes from model.py:5 torch.rand(3, 1, 32, 32)[:, :, 1:-1, 1:-1]" in note
    assert "f32[3, 1, 32, 32] → f32[3, 1, 30, 30]" in note


def test_state_of_an_earlier_call_is_named(program: Program) -> None:
    note = explained(
        program,
        """
        import torch
        from torch import nn
        def make_mask(length):
            return torch.zeros(length, length)
        class Attention(nn.Module):
            mask = None
            def forward(self, x):
                if self.mask is None:
                    self.mask = make_mask(len(x))
                return x @ x.T + self.mask
        def run():
            model = Attention()
            return [model(torch.ones(length, 2)) for length in (9, 6)]
        """,
    )
    assert "self.mask made in an earlier call, for model.py:10 make_mask(len(x))" in note


def test_nothing_is_claimed_behind_a_function_that_is_not_known(program: Program) -> None:
    note = explained(
        program,
        """
        import torch
        def run():
            wave = torch.ones(2, 8)
            spectrum = torch.fft.rfft(wave).abs()
            return spectrum.sqrt() + torch.zeros(2, 6)
        """,
    )
    assert "✗ dimension -1: 5 and 6 differ" in note
    assert "the 5 comes from" not in note


def test_index_out_of_range_names_the_sum_and_the_number_that_a_loop_changes(program: Program) -> None:
    note = explained(
        program,
        """
        import torch
        def joined(graphs):
            shift, found = 0, []
            for links in graphs:
                found.append(links + shift)
                shift += len(links) + 4
            return torch.cat(found)
        def run():
            edges = joined([torch.arange(3), torch.arange(3)])
            return torch.zeros(6).index_select(0, edges)
        """,
    )
    assert "edges goes past 5 at model.py:6 links + shift" in note
    assert "edges comes from model.py:7 shift += len(links) + 4" in note


def test_index_out_of_range_is_followed_through_a_buffer_and_numpy(program: Program) -> None:
    note = explained(
        program,
        """
        import numpy as np, torch
        from torch import nn
        def starts(sizes):
            ends = np.cumsum(sizes)
            return torch.from_numpy(ends)
        class Fields(nn.Module):
            def __init__(self, sizes):
                super().__init__()
                self.register_buffer("starts", starts(sizes))
                self.table = nn.Embedding(sum(sizes), 2)
            def forward(self, fields):
                rows = fields + self.starts
                return self.table(rows)
        def run():
            return Fields([3, 4])(torch.zeros(5, 2, dtype=torch.long))
        """,
    )
    assert "goes past 6 at model.py:13 fields + self.starts" in note
    assert "ends comes from model.py:5 np.cumsum(sizes)" in note


def test_value_is_followed_into_a_function_of_another_file(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "field_starts.py").write_text(
        "import numpy as np\ndef starts(sizes):\n    ends = np.cumsum(sizes)\n    return ends\n"
    )
    note = explained(
        program,
        """
        import torch
        from field_starts import starts
        from torch import nn
        class Fields(nn.Module):
            def __init__(self, sizes):
                super().__init__()
                self.register_buffer("starts", torch.from_numpy(starts(sizes)))
                self.table = nn.Embedding(sum(sizes), 2)
            def forward(self, fields):
                rows = fields + self.starts
                return self.table(rows)
        def run():
            return Fields([3, 4])(torch.zeros(5, 2, dtype=torch.long))
        """,
    )
    assert "ends comes from field_starts.py:3 np.cumsum(sizes)" in note


def test_value_is_followed_to_the_call_of_the_function_in_which_a_comprehension_reads_it(program: Program) -> None:
    note = explained(
        program,
        """
        import torch
        WORDS = {"the": 0, "cat": 1, "sat": 2}
        def encode(text):
            return torch.tensor([WORDS[word] for word in text.split()])
        def collate(texts):
            return torch.stack([encode(text) for text in texts])
        def run():
            return collate(["the cat", "the cat sat"])
        """,
    )
    assert 'texts comes from model.py:9 ["the cat", "the cat sat"]' in note


def test_range_of_a_part_of_several_tensors_is_not_guessed(program: Program) -> None:
    note = explained(
        program,
        """
        import torch
        def run():
            low = torch.tensor([1, 9])
            high = torch.tensor([30, 40])
            mixed = torch.cat([low, high])
            return torch.zeros(5)[mixed[:2]]
        """,
    )
    assert "model.py:5" not in note


def test_item_of_a_stack_is_followed_to_its_own_tensor(program: Program) -> None:
    note = explained(
        program,
        """
        import torch
        def run():
            days = torch.tensor([1, 7])
            hours = torch.tensor([3, 23])
            table = torch.stack([days, hours], 1)
            return torch.nn.functional.embedding(table[:, 0], torch.zeros(7, 2))
        """,
    )
    assert "goes past 6 at model.py:4 torch.tensor([1, 7])" in note
    assert "model.py:5" not in note


def test_number_of_classes_is_followed_to_the_line_that_counted_them(program: Program) -> None:
    note = explained(
        program,
        """
        import torch
        from torch import nn
        def run():
            labels = torch.tensor([0, 1, 1, 3])
            classes = int(labels[:3].max()) + 1
            head = nn.Linear(2, classes)
            return nn.functional.cross_entropy(head(torch.zeros(4, 2)), labels)
        """,
    )
    assert "the 2 comes from model.py:6 int(labels[:3].max()) + 1" in note


def test_size_from_a_number_is_followed_to_the_line_that_computed_it(program: Program) -> None:
    note = explained(
        program,
        """
        import torch
        def mask(lengths):
            frames = lengths // 4
            return torch.arange(int(frames.max()))
        def run():
            return torch.zeros(6) + mask(torch.tensor([20, 12]))
        """,
    )
    assert "the 5 comes from model.py:4 lengths // 4" in note


def test_number_is_followed_through_attributes_parameters_and_functions(program: Program) -> None:
    note = explained(
        program,
        """
        import torch
        class Config:
            def __init__(self, width, heads):
                self.size = width // heads + width % heads
        def split(x, heads, size):
            return x.view(len(x), heads, size)
        def run():
            config = Config(10, 4)
            return split(torch.zeros(3, 10), 4, config.size)
        """,
    )
    assert "size comes from model.py:5 width // heads + width % heads via run line 10" in note


def test_number_with_several_possible_assignments_may_come_from_each(program: Program) -> None:
    note = explained(
        program,
        """
        import torch
        def run(wide=True):
            if wide:
                count = 2 + 3
            else:
                count = 2 + 2
            return torch.zeros(4, 4).view(count, 5)
        """,
    )
    assert "count may come from model.py:5 2 + 3 count may come from model.py:7 2 + 2" in note


def test_padding_before_a_view_is_named_with_its_amount(program: Program) -> None:
    note = explained(
        program,
        """
        import torch
        from torch.nn import functional as F
        def fill(x):
            missing = x.shape[-1] % 8
            return F.pad(x, (0, missing)).relu()
        def run():
            return fill(torch.zeros(2, 18)).view(2, -1, 8)
        """,
    )
    assert "the 20 comes from model.py:6 F.pad(x, (0, missing)) f32[2, 18] → f32[2, 20]" in note
    assert "the 20 comes from model.py:5 x.shape[-1] % 8" in note


def test_size_of_a_shape_is_followed_to_the_other_tensor(program: Program) -> None:
    note = explained(
        program,
        """
        import torch
        from torch import nn
        class Positions(nn.Module):
            def forward(self, ids):
                count = ids.shape[1]
                return torch.zeros(7) + torch.arange(count)
        def run():
            ids = torch.zeros(2, 7).repeat(1, 2)
            return Positions()(ids)
        """,
    )
    assert "the 14 comes from model.py:9 torch.zeros(2, 7).repeat(1, 2) f32[2, 7] → f32[2, 14]" in note


def test_lost_dimension_is_named(program: Program) -> None:
    note = explained(
        program,
        """
        import torch
        def pooled(x):
            return x.mean(-1).squeeze()
        def run():
            left = pooled(torch.zeros(1, 4, 8)).relu()
            return torch.cat([left, torch.zeros(1, 4)])
        """,
    )
    assert "1 dimension since model.py:4 x.mean(-1).squeeze() f32[1, 4] → f32[4]" in note


def test_dtype_of_a_mask_is_followed(program: Program) -> None:
    note = explained(
        program,
        """
        import torch
        from torch.nn import functional as F
        def run():
            mask = (torch.arange(4) < 3).long()
            mask = mask[None, None].expand(1, 4, 4)
            x = torch.zeros(1, 4, 8)
            return F.scaled_dot_product_attention(x, x, x, mask)
        """,
    )
    assert "i64 since model.py:5 (torch.arange(4) < 3).long()" in note


def test_buffer_that_stays_on_meta_is_followed_to_its_call(program: Program) -> None:
    note = explained(
        program,
        """
        import torch
        from torch import nn
        class Rotary(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("rates", torch.linspace(0, 1, 4), persistent=False)
            def forward(self, x):
                return x * self.rates
        def run():
            with torch.device("meta"):
                model = Rotary()
            return model(torch.zeros(2, 4))
        """,
    )
    assert "self.rates is on meta" in note
    assert "model.py:7" in note


DATASET = """
        import numpy as np, torch
        from torch import nn
        from torch.utils.data import Dataset, DataLoader
        class Points(Dataset):
            def __init__(self):
                self.x = np.linspace(0, 1, 8).reshape(4, 2)
                self.index = {"a": 1, "b": 2}
            def __len__(self):
                return 4
            def __getitem__(self, at):
                return torch.from_numpy(self.x[at]), self.index["ab"[at % 2]]
"""


def test_dtype_is_followed_into_a_dataset(program: Program) -> None:
    text = """
        def run():
            for x, y in DataLoader(Points(), batch_size=2):
                nn.Linear(2, 2)(x)
    """
    assert "f64 comes from model.py:7 np.linspace(0, 1, 8)" in explained(program, DATASET + text)


def test_label_is_followed_into_a_dataset(program: Program) -> None:
    text = """
        def run():
            for x, y in DataLoader(Points(), batch_size=2):
                nn.functional.cross_entropy(nn.Linear(2, 2)(x.float()), y)
    """
    note = explained(program, DATASET + text)
    assert 'y comes from model.py:12 self.index["ab"[at % 2]]' in note
    assert 'self.index comes from model.py:8 {"a": 1, "b": 2}' in note


def test_gradients_that_a_decorator_switches_off_are_named(program: Program) -> None:
    note = explained(
        program,
        """
        import torch
        from torch import nn
        @torch.no_grad()
        def features(body, x):
            return body(x)
        def run():
            loss = features(nn.Linear(2, 2), torch.zeros(3, 2)).sum()
            loss.backward()
        """,
    )
    assert "gradient switched off at model.py:4 torch.no_grad()" in note
    assert "gradient lost at model.py:6 body(x)" in note


def test_gradients_that_a_statement_switches_off_are_named(program: Program) -> None:
    note = explained(
        program,
        """
        import torch
        from torch import nn
        def evaluate():
            torch.set_grad_enabled(False)
        def run():
            evaluate()
            try:
                nn.Linear(2, 2)(torch.zeros(3, 2)).sum().backward()
            finally:
                torch.set_grad_enabled(True)
        """,
    )
    assert "gradient switched off at model.py:5 torch.set_grad_enabled(False)" in note


@pytest.mark.filterwarnings("ignore:None of the inputs")
def test_reentrant_checkpoint_is_named(program: Program) -> None:
    note = explained(
        program,
        """
        import torch
        from torch import nn
        from torch.utils.checkpoint import checkpoint
        def run():
            body = nn.Linear(2, 2)
            hidden = checkpoint(body, torch.zeros(3, 2), use_reentrant=True)
            hidden.sum().backward()
        """,
    )
    assert "gradient switched off at model.py:7 checkpoint(body, torch.zeros(3, 2), use_reentrant=True)" in note


def test_loop_that_freezes_parameters_is_named(program: Program) -> None:
    note = explained(
        program,
        """
        import torch
        from torch import nn
        def freeze(model):
            for parameter in model.parameters():
                parameter.requires_grad = False
        def run():
            model = nn.Linear(2, 2)
            freeze(model)
            model(torch.zeros(3, 2)).sum().backward()
        """,
    )
    assert "parameters frozen at model.py:6 parameter.requires_grad = False" in note
    assert "parameter comes from model.py:5 for parameter in model.parameters()" in note
    assert "by the call frozen at model.py:9 freeze(model)" in note


def test_number_that_left_the_graph_is_named(program: Program) -> None:
    note = explained(
        program,
        """
        import torch
        from torch import nn
        def returns(values):
            total, found = 0.0, []
            for value in values:
                total = 0.9 * total + value.item()
                found.append(total)
            return torch.tensor(found)
        def run():
            values = [nn.Linear(2, 1)(torch.zeros(2)) for _ in range(3)]
            loss = returns(values).sum()
            loss.backward()
        """,
    )
    assert "gradient lost at model.py:7 0.9 * total + value.item()" in note


def test_line_that_stores_a_result_with_its_graph_is_named(program: Program) -> None:
    note = explained(
        program,
        """
        import torch
        from torch import nn
        def play(critic, buffer):
            value = critic(torch.zeros(2))
            buffer.append((1.0, value))
        def run():
            critic, buffer = nn.Linear(2, 1), []
            for _ in range(2):
                play(critic, buffer)
                loss = torch.stack([value for _, value in buffer]).sum()
                loss.backward()
        """,
    )
    assert "stored at model.py:6 buffer.append((1.0, value))" in note


def test_stale_container_is_followed_to_the_line_that_hands_it_over(program: Program) -> None:
    note = explained(
        program,
        """
        import torch
        from torch import nn
        class Decoder(nn.Module):
            def __init__(self):
                super().__init__()
                self.past = []
            def forward(self, x, past):
                past.append(x * 2)
                return torch.cat(past, 1)
        def answer(model, x):
            past = model.past
            return model(x, past)
        def run():
            model = Decoder()
            answer(model, torch.zeros(2, 1))
            answer(model, torch.zeros(3, 1))
        """,
    )
    assert "past[0] stored at model.py:9 past.append(x * 2)" in note
    assert "past comes from model.py:12 model.past" in note


def test_order_of_elements_is_followed_through_an_index(program: Program) -> None:
    note = explained(
        program,
        """
        import torch
        from torch.nn.utils.rnn import pack_padded_sequence
        def run():
            lengths = torch.tensor([2, 4, 3])
            order = lengths.argsort()
            lengths = lengths[order]
            return pack_padded_sequence(torch.zeros(3, 4, 2), lengths, batch_first=True)
        """,
    )
    assert "the order comes from model.py:6 lengths.argsort()" in note


def test_order_of_elements_is_followed_to_a_sort_of_samples(program: Program) -> None:
    note = explained(
        program,
        """
        import torch
        from torch.nn.utils.rnn import pack_padded_sequence
        def collate(samples):
            samples.sort(key=len)
            lengths = [len(sample) for sample in samples]
            return lengths
        def run():
            lengths = collate([[1, 2], [3]])
            return pack_padded_sequence(torch.zeros(2, 2, 2), lengths, batch_first=True)
        """,
    )
    assert "the order comes from model.py:5 samples.sort(key=len)" in note


def test_arguments_of_a_wrapper_are_not_those_of_the_module_inside(program: Program) -> None:
    note = explained(
        program,
        """
        import torch
        from torch import nn
        from torch.utils.checkpoint import checkpoint
        class Block(nn.Module):
            def forward(self, size, x):
                return x.view(size, 7)
        def run():
            block = Block()
            wrong = block
            return checkpoint(block, 3, torch.zeros(4, 4), use_reentrant=False)
        """,
    )
    assert "size comes from" not in note


def test_dtype_is_followed_through_collate_functions_and_containers(program: Program) -> None:
    note = explained(
        program,
        """
        import numpy as np, torch
        from functools import partial
        from torch import nn
        from torch.utils.data import DataLoader, Dataset
        class Table(Dataset):
            def __init__(self, columns):
                self.age = columns["age"]
                self.visits = np.log1p(columns["visits"])
            def __len__(self):
                return 4
            def __getitem__(self, i):
                return {"age": self.age[i], "visits": self.visits[i]}
        def collate(samples, name):
            return {"x": torch.from_numpy(np.stack([sample[name] for sample in samples]))}
        def read():
            return {"age": np.ones((4, 2), np.float32), "visits": np.arange(8).reshape(4, 2)}
        def run():
            for batch in DataLoader(Table(read()), collate_fn=partial(collate, name="visits")):
                nn.Linear(2, 2)(batch["x"])
        """,
    )
    assert (
        'f64 comes from model.py:9 np.log1p(columns["visits"]) via run line 19, collate line 15, __getitem__ line 13'
        in note
    )
    assert "model.py:8" not in note


def test_none_is_followed_through_a_loader_to_the_choice(program: Program) -> None:
    note = explained(
        program,
        """
        import torch
        from torch.utils.data import DataLoader
        def collate(rows):
            mask = torch.tensor(rows).eq(0)
            return {"mask": mask if mask.any() else None}
        def fill(batch):
            return torch.masked_fill(torch.zeros(2), batch["mask"], 1.0)
        def run():
            for batch in DataLoader([1, 2], batch_size=2, collate_fn=collate):
                fill(batch)
        """,
    )
    assert "comes from model.py:6 mask if mask.any() else None" in note


def test_parameter_of_another_size_is_followed_to_the_number(program: Program) -> None:
    note = explained(
        program,
        """
        import torch
        from torch import nn
        class Net(nn.Module):
            def __init__(self, classes):
                super().__init__()
                self.body = nn.Sequential(nn.Linear(3, 8), nn.Linear(8, classes))
        def count(labels):
            return len(set(labels) - {0})
        def run():
            state = Net(3).state_dict()
            model = Net(count([0, 1, 2]))
            model.load_state_dict(state)
        """,
    )
    assert "the 2 comes from model.py:9 len(set(labels) - {0})" in note
    assert "body.1.weight made at model.py:7 nn.Linear(8, classes)" in note


def test_samples_of_different_lengths_are_followed_into_the_dataset(program: Program) -> None:
    note = explained(
        program,
        """
        import torch
        from torch.utils.data import DataLoader, Dataset
        class Crop:
            def __init__(self, size):
                self.size = size
            def __call__(self, row, start):
                return row[start:start + self.size]
        class Rows(Dataset):
            def __init__(self, crop):
                self.crop = crop
            def __len__(self):
                return 4
            def __getitem__(self, i):
                return self.crop(torch.zeros(6), i), i
        def run():
            for row, label in DataLoader(Rows(Crop(4)), batch_size=4):
                pass
        """,
    )
    assert "sizes comes from model.py:8 row[start:start + self.size]" in note


def test_shape_with_too_few_dimensions_is_followed_to_what_dropped_one(program: Program) -> None:
    note = explained(
        program,
        """
        import numpy as np, torch
        from torch.utils.data import DataLoader
        def scale(image):
            return image.squeeze() / np.float32(255)
        class Images:
            def __len__(self):
                return 2
            def __getitem__(self, i):
                return torch.from_numpy(scale(np.zeros((1, 4, 4), np.float32)))
        def run():
            for x in DataLoader(Images(), batch_size=2):
                batch, channels, height, width = x.shape
        """,
    )
    assert "3 dimensions comes from model.py:5 image.squeeze()" in note


def test_dtype_that_only_the_message_names_is_followed_into_a_class(program: Program) -> None:
    note = explained(
        program,
        """
        import numpy as np, torch
        class Column:
            def __init__(self, values):
                self.codes = np.unique(values, return_inverse=True)[1].astype(np.int32)
        def batches(column):
            yield {"y": column.codes[:2]}
        def run():
            for batch in batches(Column(["a", "b"])):
                y = torch.as_tensor(batch["y"])
                torch.nn.functional.cross_entropy(torch.zeros(2, 3), y)
        """,
    )
    assert "i32 comes from model.py:5" in note and ".astype(np.int32)" in note


def test_number_of_rows_is_followed_to_the_property_that_counts_them(program: Program) -> None:
    note = explained(
        program,
        """
        import torch
        from torch import nn
        class Letters:
            def __init__(self, text):
                self.text = text
            @property
            def total(self):
                return len(self.text) - 1
        def run():
            letters = Letters("abcd")
            embed = nn.Embedding(letters.total, 2)
            return embed(torch.tensor([letters.text.index(c) for c in "abcd"]))
        """,
    )
    assert "the 3 comes from model.py:9 len(self.text) - 1" in note
