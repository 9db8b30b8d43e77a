#!/usr/bin/env python3
"""scripts/gpu_report.py on answers as the benches print them: rows, ratios, and what was not measured."""

import json
import pathlib
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).parents[2] / "scripts" / "gpu_report.py"


def row(work, ms, **more):
    return {"work": work, "median_ms": ms, "min_ms": ms, "max_ms": ms, "gflops": None, "peak_bytes": None,
            "joules": None, **more}


def peer(ms, **more):
    return {"program": "torch 2", "work": "step", "form": "dense", "dtype": "bf16", "compile": False,
            "optimizer": "adamw", "graph": "none",
            "median_ms": ms, "min_ms": ms, "max_ms": ms, "peak_bytes": 30 << 20, "joules": 0.5, **more}


class Report(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.lines = pathlib.Path(self.folder.name) / "lines.jsonl"
        self.lines.write_text('{"check": "kernels", "status": 0, "seconds": 1}\n')

    def call(self, *words):
        return subprocess.run([SCRIPT, *words], check=True, capture_output=True, text=True).stdout

    def add(self, name, answer):
        path = pathlib.Path(self.folder.name) / "answer.json"
        path.write_text(json.dumps(answer))
        return self.call("row", name, path, self.lines)

    def ratios(self):
        text = self.call("ratios", self.lines)
        found = [json.loads(line) for line in self.lines.read_text().splitlines()]
        return text, {(line["ratio"], line["against"], line["what"]): line for line in found if "ratio" in line}

    def test_times_and_memory(self):
        self.add("mnli-6enc 1 x 128 tt bf16", {"rows": [row("step", 2.0, peak_bytes=4 << 20), row("linear", 1.0)]})
        self.add("mnli-6enc 1 x 128", peer(20.0, optimizer="galore"))
        text, found = self.ratios()
        time = found["mnli-6enc 1 x 128 tt bf16 step", "pytorch dense bf16 galore", "median_ms"]
        self.assertEqual((time["value"], time["met"]), (10.0, True))
        memory = found["mnli-6enc 1 x 128 tt bf16 step", "pytorch dense bf16 galore", "peak_bytes"]
        self.assertEqual((memory["value"], memory["at_least"], memory["met"]), (7.5, 15, False))
        self.assertIn("| mnli-6enc 1 x 128 tt bf16, step | pytorch dense bf16 galore, time | 10.00x | 8x | yes |", text)
        self.assertIn("| mnli-6enc 1 x 128 tt bf16, step | pytorch dense bf16 galore, memory | 7.50x | 15x | no |",
                      text)

    def test_what_was_not_measured_is_not_met(self):
        self.add("mnli-6enc 32 x 128 tt bf16", {"rows": [row("step", 2.0)]})
        text, found = self.ratios()
        self.assertTrue(all(line["value"] is None and line["met"] is None for line in found.values()))
        self.assertEqual(text.count("not measured"), len(found))

    def test_an_eager_peer_does_not_stand_for_a_compiled_one(self):
        self.add("mnli-6enc 32 x 128 tt bf16", {"rows": [row("step", 2.0)]})
        self.add("mnli-6enc 32 x 128", peer(12.0))
        self.add("mnli-6enc 32 x 128", peer(4.0, compile=True, graph="whole step"))
        _, found = self.ratios()
        self.assertTrue(found["mnli-6enc 32 x 128 tt bf16 step", "pytorch dense bf16", "median_ms"]["met"])
        compiled = found["mnli-6enc 32 x 128 tt bf16 step", "pytorch dense bf16 compiled", "median_ms"]
        self.assertEqual((compiled["value"], compiled["met"]), (2.0, False))

    def test_the_bound_takes_the_fastest_rates_of_both(self):
        name = "linear 768x3072 at 4096 tokens tt bf16"
        # 1 ms at 1000 GB/s; the peer copies at 2000 GB/s.
        tokens = row("tokens", 1.0, gflops=100.0, moved_bytes=10**9)
        self.add(name, {"rows": [row("step", 3.0), tokens, row("cores", 1.0)], "peak_gflops": 1e5,
                        "copy_gb_per_s": 1000.0})
        _, found = self.ratios()
        self.assertAlmostEqual(found[name + " tokens", "roofline", "bound"]["value"], 1.0)
        self.add("rates", {**peer(0), "work": "rates", "peak_gflops": 1e4, "copy_gb_per_s": 2000.0})
        self.lines.write_text("".join(line + "\n"
                                      for line in self.lines.read_text().splitlines() if '"ratio"' not in line))
        text, found = self.ratios()
        self.assertAlmostEqual(found[name + " tokens", "roofline", "bound"]["value"], 0.5)
        self.assertIn("| roofline, share of the bound | 50 % | 50 % | yes |", text)

    def test_a_bound_of_products(self):
        name = "linear 768x3072 at 65536 tokens tt bf16"
        tokens = row("tokens", 1.0, gflops=600.0, moved_bytes=10**6)
        self.add(name, {"rows": [tokens], "peak_gflops": 1000.0, "copy_gb_per_s": 1000.0})
        line = self.ratios()[1][name + " tokens", "roofline", "bound"]
        self.assertAlmostEqual(line["value"], 0.6)
        self.assertFalse(line["met"])

    def test_cores_of_a_model_are_its_merges(self):
        text = self.add("model", {"rows": [row("step", 9.0, joules=0.25, launches=490), row("tt_merge", 0.5),
                                           row("tt_merge_backward", 1.0)]})
        self.assertEqual(text, "| model | comera | step | 9.000 | 0.250 |  | 490 |\n"
                               "| model | comera | cores | 1.500 |  |  |  |\n")

    def test_an_epoch_says_what_it_was_taken_from(self):
        answer = {"program": "comera", "work": "epoch", "median_ms": 2.0, "steps": 600, "epoch_steps": 3071,
                  "epoch_seconds": 6.142, "peak_bytes": 1 << 20,
                  "joules": None}
        self.assertIn("(from 600 steps: 6.1 s for 3071 steps) | comera | step | 2.000 |  | 1 |  |",
                      self.add("epoch mnli-6enc 128 x 128 tt bf16", answer))
        self.add("epoch mnli-6enc 128 x 128", peer(5.0, work="epoch", compile=True))
        self.assertTrue(self.ratios()[1]["epoch mnli-6enc 128 x 128 tt bf16 step", "pytorch dense bf16 compiled",
                                         "median_ms"]["met"])


if __name__ == "__main__":
    unittest.main()
