"""What the path of a source file says about it: whether a library owns the file, and its path inside that library.

Only the text of the path is read. A trace may come from another machine, where the file is and the reader is not.
"""

from __future__ import annotations

import re
from functools import lru_cache

# The folders that installed packages are in, and the standard library: the path inside the library follows them.
INSTALLED = re.compile(
    r".*/(?:site-packages|dist-packages)/"
    r"|.*/lib(?:32|64)?/python3(?:\.\d+t?)?/"  # /usr/lib/python3.11/random.py
    r"|.*/python3\d+/lib/",  # C:\Python311\Lib\random.py
    re.IGNORECASE,
)


@lru_cache(maxsize=4096)
def is_library(file: str) -> bool:
    """Whether a source file belongs to an installed package or to the standard library.

    >>> is_library("/venv/lib/python3.11/site-packages/vit_pytorch/vit.py"), is_library("/home/me/vit.py")
    (True, False)
    """
    return INSTALLED.match(_with_slashes(file)) is not None


@lru_cache(maxsize=4096)
def folders(file: str) -> tuple[str, ...]:
    """The folders that a file is in, the outermost first: for a file of a library, those inside the library.

    A module of a library that is in no package has the folder of all packages.

    >>> folders("/venv/lib/python3.11/site-packages/vit_pytorch/vit.py"), folders("C:\\\\me\\\\train.py")
    (('vit_pytorch',), ('C:', 'me'))
    >>> folders("/usr/lib/python3.11/random.py")
    ('python3.11',)
    """
    path = _with_slashes(file)
    installed = INSTALLED.match(path)
    if installed is None:
        return _parts(path)[:-1]
    return _parts(path[installed.end() :])[:-1] or _parts(installed.group())[-1:]


def base_name(file: str) -> str:
    """The name of a file without its folders, whatever system the path is from.

    >>> base_name("/home/me/model.py"), base_name("C:\\\\me\\\\model.py"), base_name("<stdin>")
    ('model.py', 'model.py', '<stdin>')
    """
    return _with_slashes(file).rpartition("/")[2]


def _with_slashes(file: str) -> str:
    return file.replace("\\", "/")


def _parts(path: str) -> tuple[str, ...]:
    return tuple(part for part in path.split("/") if part)
