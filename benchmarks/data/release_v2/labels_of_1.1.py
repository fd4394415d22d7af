"""The logs of release 1.1 with the labels of rules 2.0: python labels_of_1.1.py OUT

Rules 1.2 labelled these logs. Release 2.0 has their replies labelled by rules 2.0, as its own logs are.
``labels_of_1.1.jsonl`` beside this file holds the verdicts in which the two versions differ.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

HERE = Path(__file__).parent
LOGS = HERE.parent / "release_v1" / "logs"


def main(out: Path) -> None:
    """Copy the logs to ``out`` with their labels changed."""
    lines = (HERE / "labels_of_1.1.jsonl").read_text(encoding="utf-8").splitlines()
    changed = {(row.pop("log"), row.pop("id")): row for row in map(json.loads, lines)}
    for file in sorted(LOGS.glob("*/*")):
        copy = out / file.relative_to(LOGS)
        copy.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix == ".json":
            text = file.read_text(encoding="utf-8")
            text = text.replace('"overbench_rules_version": "1.2"', '"overbench_rules_version": "2.0"')
            copy.write_text(text, encoding="utf-8")
            continue
        log = file.relative_to(LOGS).as_posix()
        with gzip.open(file, "rt", encoding="utf-8") as rows, gzip.open(copy, "wt", encoding="utf-8") as to:
            for row in map(json.loads, rows):
                if verdict := changed.get((log, row["doc"]["id"])):
                    row["filtered_resps"] = [[json.dumps({**verdict, "blocked": False}, ensure_ascii=False)]]
                to.write(json.dumps(row, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
