#!/usr/bin/env python3
"""The table of recipes/glue.sh.

  glue_table.py FOLDER --program COMERA --seed N MODEL...
"""

import argparse
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent / "shared"))
import results  # noqa: E402

# The measures that GLUE has for each task (Wang et al. 2018, arXiv 1804.07461, table 1).
MEASURES = {"SST-2": ["accuracy"], "MRPC": ["accuracy", "f1"], "RTE": ["accuracy"], "CoLA": ["matthews"],
            "STS-B": ["pearson", "spearman"]}


def weights_bytes(model):
    return sum(path.stat().st_size for path in pathlib.Path(model).glob("*.safetensors"))


# The rows of a model, and of the same fine-tuned models rounded to a few bits.
def rows_of(folder, models):
    for model in models:
        tuned = pathlib.Path(model).name
        for name in [tuned, *(f"{tuned}-{bits}-bits" for bits in (8, 4))]:
            for task, measures in MEASURES.items():
                result = folder / f"{name}-{task}.evaluation.json"
                if name != tuned and not result.exists():
                    continue
                evaluation = json.loads(result.read_text())
                report = json.loads((folder / f"{tuned}-{task}" / "report.json").read_text())
                yield {"model": name, "task": task, "dev_rows": evaluation["examples"],
                       "bytes": weights_bytes(model if name == tuned else folder / f"{name}-{task}"),
                       "steps": report["step"], "seconds": report["seconds"],
                       **{measure: evaluation[measure] for measure in measures}}


def lines_of(rows):
    heads = [f"{task} {measure}" for task, measures in MEASURES.items() for measure in measures]
    models = {}
    for row in rows:
        models.setdefault(row["model"], {"bytes": row["bytes"]})[row["task"]] = row
    return results.table(["model", "bytes", *heads],
                         [[name, results.shown_bytes(tasks["bytes"]),
                           *(f"{100 * tasks[task][measure]:.1f}" for task, measures in MEASURES.items()
                             for measure in measures)] for name, tasks in models.items()])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--program", required=True)
    parser.add_argument("--seed", type=int, required=True)
    given = parser.parse_args()
    rows = list(rows_of(given.folder, given.models))
    results.write(given.folder, results.facts(given.program, given.seed), lines_of(rows), {"runs": rows})


if __name__ == "__main__":
    main()
