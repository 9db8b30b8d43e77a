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
        self.place = pathlib.Path(self.folder.name)
        self.lines = self.place / "lines.jsonl"

    def call(self, *words):
        return subprocess.run([SCRIPT, *map(str, words)], check=True, capture_output=True, text=True).stdout

    def end(self, name, status=0, log="", answer=None, seconds=1, limit=60, kind="ours", run="first"):
        (self.place / "log").write_text(log)
        words = []
        if answer is not None:
            (self.place / "answer.json").write_text(json.dumps(answer))
            words = [self.place / "answer.json"]
        return self.call("add", self.lines, run, "part", name, status, seconds, limit, kind, self.place / "log", *words)

    def add(self, name, answer):
        return self.end(name, answer=answer)

    def kept(self):
        return [json.loads(line) for line in self.lines.read_text().splitlines()]

    def page(self):
        self.counts = self.call("page", self.lines, self.place / "page.md").strip()
        return (self.place / "page.md").read_text()

    def test_times_and_memory(self):
        self.add("mnli-6enc 1 x 128 tt bf16", {"rows": [row("step", 2.0, peak_bytes=4 << 20), row("linear", 1.0)]})
        text = self.add("mnli-6enc 1 x 128", peer(20.0, optimizer="galore", peak_bytes=90 << 20,
                                                  steady_peak_bytes=30 << 20, steady_device_bytes=40 << 20))
        self.assertIn("| 90 (30 without its SVD) |", text)
        page = self.page()
        ours = "| mnli-6enc 1 x 128 tt bf16, step | pytorch dense bf16 galore, "
        self.assertIn(ours + "time | 10.00x | 8x | yes |", page)
        self.assertIn(ours + "memory of the driver without GaLore's SVD | 10.00x | 15x | no |", page)
        self.assertIn(ours + "memory of PyTorch's allocator without GaLore's SVD | 7.50x |  |  |", page)
        self.assertIn(ours + "memory of PyTorch's allocator | 22.50x |  |  |", page)

    def test_what_was_not_measured_is_not_met(self):
        self.add("mnli-6enc 32 x 128 tt bf16", {"rows": [row("step", 2.0)]})
        asked = self.page().split("## Required ratios")[1].strip().splitlines()[2:]
        self.assertEqual([line for line in asked if "not measured" not in line or "yes" in line], [])
        self.assertGreater(len(asked), 10)

    def test_an_eager_peer_does_not_stand_for_a_compiled_one(self):
        self.add("mnli-6enc 32 x 128 tt bf16", {"rows": [row("step", 2.0)]})
        self.add("mnli-6enc 32 x 128", peer(12.0))
        self.add("mnli-6enc 32 x 128", peer(4.0, compile=True, graph="whole step"))
        page = self.page()
        self.assertIn("| pytorch dense bf16, time | 6.00x | 5x | yes |", page)
        self.assertIn("| pytorch dense bf16 compiled, time | 2.00x | 2.5x | no |", page)

    def test_the_last_measurement_counts(self):
        for ms in (2.0, 1.0):
            self.add("mnli-6enc 32 x 128 tt bf16", {"rows": [row("step", ms)]})
        self.add("mnli-6enc 32 x 128", peer(12.0))
        self.assertIn("| pytorch dense bf16, time | 12.00x | 5x | yes |", self.page())

    def test_the_bound_takes_the_fastest_rates_of_both(self):
        name = "linear 768x3072 at 4096 tokens tt bf16"
        # 1 ms at 1000 GB/s; the peer copies at 2000 GB/s.
        tokens = row("tokens", 1.0, gflops=100.0, moved_bytes=10**9)
        self.add(name, {"rows": [row("step", 3.0), tokens, row("cores", 1.0)], "peak_gflops": 1e5,
                        "copy_gb_per_s": 1000.0})
        self.assertIn("| roofline, share of the bound | 100 % | 50 % | yes |", self.page())
        self.add("rates", {**peer(0), "work": "rates", "peak_gflops": 1e4, "copy_gb_per_s": 2000.0})
        self.assertIn("| roofline, share of the bound | 50 % | 50 % | yes |", self.page())

    def test_a_bound_of_products(self):
        name = "linear 768x3072 at 65536 tokens tt bf16"
        tokens = row("tokens", 1.0, gflops=600.0, moved_bytes=10**6)
        self.add(name, {"rows": [tokens], "peak_gflops": 1000.0, "copy_gb_per_s": 1000.0})
        self.assertIn("| roofline, share of the bound | 60 % | 70 % | no |", self.page())

    def test_cores_of_a_model_are_its_merges(self):
        text = self.add("model", {"rows": [row("step", 9.0, joules=0.25, launches=490), row("tt_merge", 0.5),
                                           row("tt_merge_backward", 1.0)]})
        self.assertEqual(text, "- model: passed in 1 s\n"
                               "| model | comera | step | 9.000 | 0.250 |  | 490 |\n"
                               "| model | comera | cores | 1.500 |  |  |  |\n")

    def test_an_epoch_says_what_it_was_taken_from(self):
        answer = {"program": "comera", "work": "epoch", "median_ms": 2.0, "steps": 600, "epoch_steps": 3071,
                  "epoch_seconds": 6.142, "peak_bytes": 1 << 20,
                  "joules": None}
        self.assertIn("(from 600 steps: 6.1 s for 3071 steps) | comera | step | 2.000 |  | 1 |  |",
                      self.add("epoch mnli-6enc 128 x 128 tt bf16", answer))
        self.add("epoch mnli-6enc 128 x 128", peer(5.0, work="epoch", compile=True))
        self.assertIn("| epoch mnli-6enc 128 x 128 tt bf16, step | pytorch dense bf16 compiled, time | 2.50x | 2.5x "
                      "| yes |", self.page())

    def test_everything_that_was_answered_is_kept(self):
        path = "tt_linear_backward bf16 9 x 8 -> 4/4: fused 1.5 ms, library 1.2 ms: library"
        answer = {"rows": [row("step", 2.0), row("norm", 0.5, shape="9 x 8", calls=3)]}
        self.end("bench", log=f"[12:00] {path}\nother\n{path}\n", answer=answer)
        self.assertEqual((self.kept()[0]["answer"], self.kept()[0]["paths"]), (answer, [path]))
        page = self.page()
        self.assertIn("- " + path, page)
        self.assertIn("| norm | 9 x 8 | 3 | 0.5 |", page)

    def test_the_cases_nearest_to_their_bounds_come_first(self):
        cases = "".join(f"bound 0.{i:02} op cuda gpu: case {i}\n" for i in range(10, 60))
        self.end("kernels", log=cases + "bound nan op cuda gpu: broken\nbound 1.500 op cuda gpu: wrong\n", status=1)
        bounds = self.kept()[0]["bounds"]
        self.assertEqual(bounds[:3], ["nan op cuda gpu: broken", "1.500 op cuda gpu: wrong", "0.590 op cuda gpu: case 59"])
        self.assertEqual(len(bounds), 20)

    def test_a_limit_is_no_failure_and_a_failure_no_limit(self):
        self.end("slow", status=124, seconds=60, log="so far")
        self.end("killed", status=137, seconds=66)
        self.end("quick", status=124, seconds=3)
        self.end("broken", status=3, seconds=60)
        self.end("later", status="none", limit=0)
        self.end("peer", status=1, kind="peer")
        self.end("damaged", answer=None, log="no JSON")
        self.assertEqual([line["outcome"] for line in self.kept()],
                         ["limit", "limit", "failed", "failed", "not run", "failed", "passed"])
        page = self.page()
        self.assertEqual(self.counts, "2 2 1")
        self.assertIn("- slow: stopped at its limit of 60 s, which is not a failure\n```\nso far\n```", page)
        self.assertIn("- later: not run, no time was left", page)

    def test_a_second_run_adds(self):
        self.call("facts", self.lines, "first", "GPU=one", "program=a=b")
        self.end("kernels")
        self.call("facts", self.lines, "second", "GPU=two")
        self.end("kernels", status=1, run="second")
        page = self.page()
        self.assertLess(page.index("- GPU: one"), page.index("- GPU: two"))
        self.assertIn("- program: a=b", page)
        self.assertEqual(self.counts, "1 0 0")
        self.assertEqual(sorted(path.name for path in self.place.iterdir()), ["lines.jsonl", "log", "page.md"])


if __name__ == "__main__":
    unittest.main()
