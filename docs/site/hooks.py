"""What mkdocs does for this site besides rendering pages: colour shown output, and make the pages of the gallery."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent


def on_startup(**options: Any) -> None:
    """Let Pygments find the lexer of shown output: blocks without a language are output."""
    from pygments.lexers import LEXERS

    if str(FOLDER) not in sys.path:
        sys.path.insert(0, str(FOLDER))
    from output_lexer import OutputLexer

    LEXERS["OutputLexer"] = ("output_lexer", OutputLexer.name, tuple(OutputLexer.aliases), (), ())


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that the gallery links to, made by the insitu of this checkout."""
    from gallery import PAGES, make_page
    from mkdocs.structure.files import File

    with tempfile.TemporaryDirectory() as folder:
        for name in PAGES:
            content = make_page(name, Path(folder)).read_text(encoding="utf-8")
            files.append(File.generated(config, f"gallery/{name}", content=content))
    return files
