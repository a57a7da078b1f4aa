#!/usr/bin/env python3
"""PyTorch's own _memory_viz.py reads what `run --snapshot` writes, and sees in it what it sees in the recording.

usage: viz_check.py MEMORY_VIZ ALLOCSIM RECORDING...

Not part of the default tests, as it needs a file of PyTorch's: torch/cuda/_memory_viz.py out of any installed torch
(2.1 or later), for example

    python3 tests/cli/viz_check.py "$(python3 -c 'import torch.cuda._memory_viz as m; print(m.__file__)')" \\
        build/tools/allocsim traces/samples/attention-peak-complete.pickle

The module needs nothing else of torch. Its flame graphs are compared before they are drawn, since it downloads the
program that draws them. What was last asked for in blocks that are free now is left out: not every recording tells
(specification, R172).
"""
import contextlib
import importlib.util
import io
import os
import subprocess
import sys
import tempfile

from snapshot_out import load, unpack


def load_module(path):
    spec = importlib.util.spec_from_file_location('memory_viz', path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def lines_of(text):
    return text


def common(snapshot):
    """Without what a trace does not keep."""
    snapshot['device_traces'] = [[entry for entry in history if entry['action'] != 'snapshot']
                                 for history in snapshot['device_traces'] if history]
    for segment in snapshot['segments']:
        for block in segment['blocks']:
            if block['state'] == 'inactive':
                block['requested_size'] = 0
    return snapshot


def view(viz, snapshot):
    """The answers of the subcommands stats, segments, memory and trace."""
    yield 'stats', viz.segsum(snapshot)
    yield 'segments', viz.segments(snapshot, format_flamegraph=lines_of)
    yield 'memory', viz.memory(snapshot, format_flamegraph=lines_of)
    yield 'trace', viz.trace(snapshot)


def main():
    viz, allocsim = load_module(sys.argv[1]), sys.argv[2]
    for path in sys.argv[3:]:
        with tempfile.TemporaryDirectory(prefix='allocsim-viz-') as folder:
            recording, out = unpack(path, folder), os.path.join(folder, 'out')
            subprocess.run([allocsim, 'run', '-q', '--no-db', '--snapshot', out, path], check=True,
                           stdout=subprocess.DEVNULL)
            recorded, written = common(load(recording)), common(load(out))
            for (what, expected), (_, found) in zip(view(viz, recorded), view(viz, written)):
                lines = [pair for pair in zip(expected.splitlines(), found.splitlines()) if pair[0] != pair[1]]
                assert expected == found, f'{path}: {what} differs: {str(lines[:1])[:500]}'
            with contextlib.redirect_stdout(io.StringIO()):
                difference = viz.compare(recorded['segments'], written['segments'], format_flamegraph=lines_of)
            assert not difference.strip(), f'{path}: compare: {difference[:500]}'
            for plot in (viz.trace_plot, viz.segment_plot):
                assert '<script' in plot(written), f'{path}: {plot.__name__} makes no page'
            print(f'{os.path.basename(path)}: stats, segments, memory, trace and compare equal; pages made')


if __name__ == '__main__':
    main()
