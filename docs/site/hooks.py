"""What mkdocs does for this site besides rendering pages: colour shown output, and make the pages of the gallery."""

from __future__ import annotations

import sys
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


def on_post_build(config: Any, **options: Any) -> None:
    """Make the pages that the gallery links to, by the insitu of this checkout."""
    from gallery import make_gallery

    make_gallery(Path(config["site_dir"]) / "gallery")
