"""Source files: which belong to a library, and the folders that tell files of one name apart."""

from __future__ import annotations

import pytest

from insitu.trace.source_file import base_name, folders, is_library


@pytest.mark.parametrize(
    "file",
    [
        "/venv/lib/python3.11/site-packages/vit_pytorch/vit.py",
        "/usr/lib/python3/dist-packages/yaml/loader.py",
        "/usr/lib/python3.12/random.py",
        "/opt/python/lib/python3.13t/concurrent/futures/thread.py",
        r"C:\Users\me\venv\Lib\site-packages\torchvision\ops\misc.py",
        r"C:\Python311\Lib\random.py",
    ],
)
def test_installed_files_are_of_a_library(file: str) -> None:
    assert is_library(file)


@pytest.mark.parametrize(
    "file",
    [
        *("/home/me/train.py", "train.py", r"C:\me\train.py", "<stdin>", "<string>", ""),
        *("/tmp/ipykernel_7/1162403565.py", "/home/me/lib/model.py", "/home/me/python3.11/model.py"),
        *("/home/me/site-packages.py", "/home/me/my-site-packages/model.py"),
    ],
)
def test_other_files_are_the_users(file: str) -> None:
    assert not is_library(file)


def test_folders_of_a_library_begin_with_the_package() -> None:
    packages = "/venv/lib/python3.11/site-packages"
    assert folders(f"{packages}/transformers/models/bert/modeling_bert.py") == ("transformers", "models", "bert")
    assert folders(f"{packages}/six.py") == ("site-packages",)
    assert folders(r"C:\Python311\Lib\random.py") == ("Lib",)
    # An environment inside an environment: the innermost package counts.
    assert folders(f"{packages}/tool/vendor/lib/python3.9/site-packages/six/moves.py") == ("six",)


def test_files_without_folders() -> None:
    for file in ("train.py", "<stdin>", ""):
        assert (folders(file), base_name(file)) == ((), file)
