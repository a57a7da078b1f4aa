"""The oracle's scripts explain themselves and say what is wrong; its golden sets are well formed.

    test_scripts.py ORACLE-FOLDER GOLDEN-FOLDER
"""

import hashlib
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ORACLE, GOLDEN = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
sys.path.insert(0, str(ORACLE))
import oraclelib  # noqa: E402
import random_cases  # noqa: E402


def script(name, *arguments, **options):
    return subprocess.run([sys.executable, "-B", str(ORACLE / name), *map(str, arguments)], capture_output=True,
                          text=True, check=False, **options)


WORDS = {"a", "f", "r", "e", "s", "q", "m", "kp", "ka", "pb", "pe", "pr"}


class Scripts(unittest.TestCase):
    def test_help(self):
        for name in ("install", "record", "verify"):
            done = script(name, "--help")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(f"tests/oracle/{name}", done.stdout)

    def test_bad_arguments(self):
        for arguments in (("install",), ("record", "2.6.0"), ("verify", "--operations", "0"),
                          ("verify", "--seed", "x")):
            done = script(*arguments)
            self.assertEqual(done.returncode, 2)
            self.assertIn("usage:", done.stderr)

    def test_no_torch(self):
        with tempfile.TemporaryDirectory() as folder:
            interpreter = pathlib.Path(folder) / "python"
            interpreter.write_text("#!/bin/sh\necho\n")
            interpreter.chmod(0o755)
            done = script("verify", "--python", interpreter)
        self.assertEqual(done.returncode, 2)
        self.assertIn("has no torch", done.stderr)

    def test_no_interpreter(self):
        done = script("verify", "--python", "/nowhere/python")
        self.assertEqual(done.returncode, 2)
        self.assertIn("/nowhere/python is not installed", done.stderr)

    def test_cpu_build(self):
        with tempfile.TemporaryDirectory() as folder:
            torch = pathlib.Path(folder)
            (torch / "version.py").write_text("__version__ = '2.6.0+cpu'\ncuda: Optional[str] = None\n")
            with self.assertRaisesRegex(oraclelib.Problem, "CPU-only"):
                oraclelib.build(torch, torch / "out")

    def test_no_compiler(self):
        with tempfile.TemporaryDirectory() as folder:
            torch = pathlib.Path(folder)
            (torch / "version.py").write_text("__version__ = '2.6.0+cu124'\ncuda: Optional[str] = '12.4'\n")
            for name in ("lib/libc10_cuda.so", "include/c10/cuda/CUDACachingAllocator.h"):
                (torch / name).parent.mkdir(parents=True)
                (torch / name).touch()
            program = f"import sys; sys.path.insert(0, {str(ORACLE)!r}); import oraclelib; " \
                      f"oraclelib.main(lambda a: oraclelib.build({str(torch)!r}, {str(torch / 'out')!r}), [])"
            done = subprocess.run([sys.executable, "-B", "-c", program], capture_output=True, text=True, check=False,
                                  env={"PATH": "/nowhere", "HOME": folder})
        self.assertEqual(done.returncode, 2)
        self.assertIn("g++ is not installed", done.stderr)

    def test_not_installed_release(self):
        with tempfile.TemporaryDirectory() as folder:
            done = script("record", "2.6.0", "--from", folder, "--compare", "--root", folder)
        self.assertEqual(done.returncode, 2)
        self.assertIn("tests/oracle/install 2.6.0", done.stderr)

    def test_versions(self):
        self.assertEqual(oraclelib.release_number("2.15.0+cu132"), 21500)
        self.assertEqual(oraclelib.release_number("1.13.1"), 11301)
        with self.assertRaises(oraclelib.Problem):
            oraclelib.release_number("nightly")


class Cases(unittest.TestCase):
    def test_random_cases_are_cases(self):
        text = random_cases.write_cases(20600, 5000, 3)
        self.assertEqual(text, random_cases.write_cases(20600, 5000, 3))
        self.assertNotEqual(text, random_cases.write_cases(20600, 5000, 4))
        total = 0
        for case in text.split("end\n")[:-1]:
            head, *lines = case.split("\n")[:-1]
            self.assertRegex(head, r"^case (pools-)?verify-\d{3}$")
            count = int(lines[3].split()[1])
            self.assertEqual(len(lines) - 4, count)
            self.assertTrue(all(line.split()[0] in WORDS for line in lines[4:]))
            total += count
            live = set()
            for line in lines[4:]:
                word, *rest = line.split()
                if word == "a":
                    self.assertNotIn(rest[0], live)
                    live.add(rest[0])
                elif word in ("f", "r"):
                    self.assertIn(rest[0], live)
                    live -= {rest[0]} if word == "f" else set()
        self.assertEqual(total, 5000)

    def test_old_releases_get_no_new_settings(self):
        settings = [text for text, _ in random_cases.settings_of(11301)]
        self.assertFalse([text for text in settings if "expandable" in text or "non_split" in text])

    def test_sizes(self):
        rng = random.Random(1)
        sizes = [random_cases.random_size(rng) for _ in range(2000)]
        self.assertIn(0, sizes)
        self.assertGreater(max(sizes), 128 << 20)


@unittest.skipUnless(shutil.which("zstd"), "zstd is not installed")
class GoldenSets(unittest.TestCase):
    """Of the sets that this program recorded: what each README says is what the files hold."""

    def test_sets(self):
        sets = [folder for folder in GOLDEN.glob("torchcache-*") if "tests/oracle/record" in readme(folder)]
        self.assertTrue(sets)
        for folder in sets:
            listed = {}
            for line in readme(folder).splitlines():
                cells = [cell.strip() for cell in line.strip("|").split("|")]
                if len(cells) == 6 and cells[5].startswith("`"):
                    listed[cells[0]] = (int(cells[1]), int(cells[2]), cells[5].strip("`"))
            files = {path.name.split(".")[0]: path for path in folder.glob("*.txt.zst")}
            self.assertEqual(set(files), set(listed), folder.name)
            widths = set()
            for family, path in files.items():
                cases, operations, digest = listed[family]
                self.assertEqual(hashlib.sha256(path.read_bytes()).hexdigest()[:16], digest, path)
                counted = count(path, widths)
                self.assertEqual(counted, (cases, operations), path)
            self.assertEqual(len(widths), 1, f"{folder.name}: statistics of different lengths")


def readme(folder):
    path = folder / "README.md"
    return path.read_text() if path.is_file() else ""


def count(path, widths):
    """Cases and operations of a file; checks the structure of each line on the way."""
    text = subprocess.run(["zstd", "-qdc", str(path)], capture_output=True, text=True, check=True).stdout
    cases = operations = 0
    lines = iter(text.splitlines())
    for line in lines:
        assert line.startswith("case "), line
        head = [next(lines) for _ in range(4)]
        assert [word.split(" ")[0] for word in head] == ["conf", "capacity", "fraction", "ops"], head
        expected = int(head[3].split()[1])
        for _ in range(expected):
            operation, answer = next(lines).split("\t")
            assert operation and answer[0] in "AON.-QM", answer
            if answer.startswith("Q "):
                widths.add(answer.split(" fc:")[0].count(" "))
            if answer.startswith("M "):
                for _ in range(int(answer[2:])):
                    assert next(lines)[0] in "GB"
        kinds = []
        for tail in lines:
            if tail == "end":
                break
            kinds.append(tail[0])
            if tail.startswith("Q "):
                widths.add(tail.count(" "))
        assert kinds.count("Q") == kinds.count("D") == len(head[1].split()) - 1, line
        assert set(kinds) <= set("QGBD"), kinds
        cases += 1
        operations += expected
    return cases, operations


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-q"])
