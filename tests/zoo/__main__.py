"""`python -m tests.zoo [pattern ...]`: trace every model of the zoo and say what became of it."""

from __future__ import annotations

import argparse
import json
import os
import sys
from contextlib import nullcontext
from pathlib import Path

from tests.zoo.check import Result
from tests.zoo.families import chosen, models
from tests.zoo.report import line, markdown, summary
from tests.zoo.workers import check_all


def main() -> int:
    """Check the models that are asked for; 1 if one fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.zoo", description=__doc__)
    parser.add_argument("patterns", nargs="*", help="names such as 'transformers/*' or '*/resnet*' (default: all)")
    parser.add_argument("--list", action="store_true", help="only print the names")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every result to a file, a line for each")
    parser.add_argument("--resume", action="store_true", help="what has passed in that file is not run again")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the summary as a page")
    asked = parser.parse_args()
    os.environ |= {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    every = [model.name for model in models()]
    names = chosen(every, asked.patterns)
    if asked.list:
        print(*names, sep="\n")
        return 0
    results = run(names, asked.json, earlier(asked.json) if asked.json and asked.resume else {})
    print(summary(results))
    if asked.markdown:
        asked.markdown.write_text(markdown(results, len(every)), encoding="utf-8")
    return int(any(result.state == "failed" for result in results))


def earlier(file: Path) -> dict[str, Result]:
    """The results in a file that need not be made again: the last of each model, if it passed."""
    if not file.exists():
        return {}
    found = [Result(**json.loads(text)) for text in file.read_text(encoding="utf-8").splitlines()]
    return {name: result for name, result in {each.name: each for each in found}.items() if result.state == "passed"}


def run(names: list[str], file: Path | None, known: dict[str, Result]) -> list[Result]:
    """Check models, print a line for each, and write it to the file at once."""
    results = dict.fromkeys(names) | {name: result for name, result in known.items() if name in names}
    left = [name for name in names if name not in known]
    with file.open("a" if known else "w", encoding="utf-8") if file else nullcontext() as output:
        for number, result in enumerate(check_all(left), start=1):
            results[result.name] = result
            print(line(result, number, len(left)), flush=True)
            if output:
                print(json.dumps(result.as_dict()), file=output, flush=True)
    return [result for result in results.values() if result is not None]


if __name__ == "__main__":
    sys.exit(main())
