"""The places of a tree: library files with their package, files that share a name with their folder."""

from __future__ import annotations

from tests.view.build import Run, tensor

from insitu.trace.event import Site
from insitu.view import render
from insitu.view.name import spot
from insitu.view.source_names import SourceNames

PACKAGES = "/venv/lib/python3.11/site-packages"


def places(*files: str) -> list[str]:
    """The sources of a tree with one call in each file, as the last column shows them."""
    run = Run()
    for line, file in enumerate(files, 1):
        run.call("function", f"torch.f{line}", out=tensor(line), site=Site(file, line, "f"))
    return [row.split("]  ")[1] for row in render(run.trace).splitlines()]


def test_a_file_of_a_library_has_its_package_and_that_of_the_user_has_none() -> None:
    assert places(f"{PACKAGES}/vit_pytorch/vit.py", "/home/me/vit.py") == ["vit_pytorch/vit.py:1", "vit.py:2"]


def test_the_folders_deep_in_a_library_are_left_out() -> None:
    bert, ops = f"{PACKAGES}/transformers/models/bert/modeling_bert.py", f"{PACKAGES}/torchvision/ops/misc.py"
    assert places(bert, ops) == ["transformers/…/modeling_bert.py:1", "torchvision/ops/misc.py:2"]
    assert places("/usr/lib/python3.11/random.py") == ["python3.11/random.py:1"]
    deep = [f"{PACKAGES}/package/{folder}/inner/utils.py" for folder in "ab"]
    assert places(*deep) == ["package/…/utils.py:1", "package/…/utils.py:2"]


def test_files_of_the_user_with_one_name_have_their_folders() -> None:
    found = places("/me/data/utils.py", "/me/train.py", "/me/model/utils.py", "/me/data/utils.py")
    assert found == ["data/utils.py:1", "train.py:2", "model/utils.py:3", "data/utils.py:4"]


def test_a_file_without_a_folder_has_none() -> None:
    assert places("<stdin>", "utils.py", "/me/utils.py") == ["<stdin>:1", "utils.py:2", "utils.py:3"]


def test_a_name_that_was_shown_gets_its_folder_when_another_file_has_the_same() -> None:
    names, first = SourceNames(), Site("/me/a/x.py", 1, "f")
    before = names.place(first)
    names.add(["/me/b/x.py"])
    assert (before, names.place(first)) == ("x.py:1", "a/x.py:1")


def test_other_views_name_places_in_the_same_way() -> None:
    assert spot(Site(f"{PACKAGES}/vit_pytorch/vit.py", 135, "f")) == "vit_pytorch/vit.py:135"
    assert spot(Site("/me/bad\nname.py", 1, "f")) == "bad\\nname.py:1"
