#!/usr/bin/env python3
"""What `report` draws is what the store holds; the page is whole, and every failure says why.

usage: report.py ALLOCSIM

Without gnuplot the drawing is skipped (77) after the numbers were checked; without Chromium the page is not opened.
"""
import html.parser
import os
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

import recordings
import stores

COLUMNS = 1600  # pixel columns of which a curve keeps the extremes
HOSTILE = 'x\'"`touch pwned`; system("touch pwned") <script>alert(1)<!-- &amp; \\ @a $1\n{_x}^y.pickle'
VOID = {'meta', 'link', 'br', 'img', 'hr'}


class Page(html.parser.HTMLParser):
    """Counts elements, and notes what is not closed, not unique, or leads elsewhere."""

    def __init__(self):
        super().__init__()
        self.open, self.faults, self.ids, self.count, self.text = [], [], set(), {}, ''

    def handle_starttag(self, tag, attrs):
        self.count[tag] = self.count.get(tag, 0) + 1
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name == 'id':
                if value in self.ids:
                    self.faults.append(f'id {value} twice')
                self.ids.add(value)
            if name.startswith('on'):
                self.faults.append(f'a script in {tag} {name}')
            if not name.startswith('xmlns') and re.search(r'//|^\s*javascript:', value or '') and name != 'title':
                self.faults.append(f'{tag} {name} leads elsewhere: {value}')
            if name in ('href', 'xlink:href', 'src') and not re.match('#|data:', value):
                self.faults.append(f'{tag} {name} leads elsewhere: {value}')

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.faults.append(f'</{tag}> closes nothing at {self.getpos()}')

    def handle_data(self, data):
        self.text += data


def call(folder, *words, status=0, **env):
    done = subprocess.run(words, cwd=folder, capture_output=True, timeout=300, check=False,
                          env={**os.environ, **env} if env else None)
    text = done.stderr.decode('utf-8', 'replace')
    assert done.returncode == status, f'{words}: exit {done.returncode}, not {status}: {text}'
    return done.stdout.decode(), text


def refused(folder, status, message, *words, **env):
    _, text = call(folder, *words, status=status, **env)
    assert re.search(message, text), f'{words}: says {text!r}, not {message!r}'


def data_of(folder, allocsim, db, plot, *words):
    """{series: rows} as --data prints them."""
    out, _ = call(folder, allocsim, 'report', '--quiet', '--db', db, '--plot', plot, '--data', *words)
    series = {}
    for line in out.splitlines():
        name, label, *numbers = line.split('\t')
        assert name == plot, line
        series.setdefault(label, []).append(tuple(map(int, numbers)))
    return series


def check_thinned(label, shown, rows):
    """Every point shown is a row; of each column its lowest and highest are among them; the ends are there."""
    assert set(shown) <= set(rows), f'{label}: a point is no row of the store'
    assert shown == sorted(shown) and shown[0] == rows[0] and shown[-1] == rows[-1], f'{label}: ends or order'
    low, high = rows[0][0], rows[-1][0]
    columns, kept = {}, {}
    for into, points in ((columns, rows), (kept, shown)):
        for x, y in points:
            into.setdefault(int((x - low) / max(high - low, 1) * (COLUMNS - 1)), []).append(y)
    assert columns.keys() == kept.keys(), f'{label}: columns are missing'
    for column, values in columns.items():
        assert (min(values), max(values)) == (min(kept[column]), max(kept[column])), f'{label}: a peak is lost'
        assert len(kept[column]) <= 4, f'{label}: not thinned'


def check_runs(folder, allocsim, name):
    db = sqlite3.connect(os.path.join(folder, name))
    run = db.execute('SELECT max(run_id) FROM runs').fetchone()[0]
    shown = data_of(folder, allocsim, name, 'timeline')
    for series in ('requested', 'allocated', 'active', 'reserved'):
        rows = db.execute(f'SELECT event, {series} FROM samples WHERE run_id=? ORDER BY event', (run,)).fetchall()
        check_thinned(series, shown[series], rows)
    bound, capacity = db.execute(
        "SELECT value, capacity_bytes FROM runs JOIN metrics USING(run_id) WHERE run_id=? AND"
        " name='lower_bound_bytes'", (run,)).fetchone()
    assert {y for _, y in shown['lower bound']} == {bound} and {y for _, y in shown['capacity']} == {capacity}

    shares = data_of(folder, allocsim, name, 'fragmentation', '--run', str(run))
    idle = [(event, (reserved - active) * 10**6 // reserved if reserved else 0) for event, reserved, active in
            db.execute('SELECT event, reserved, active FROM samples WHERE run_id=? ORDER BY event', (run,))]
    check_thinned('idle', shares['idle of reserved'], idle)

    summary = db.execute('SELECT policy, params, peak_reserved_bytes, peak_allocated_bytes, stall_ns, run_id'
                         " FROM run_summary WHERE status='ok'").fetchall()
    bars = data_of(folder, allocsim, name, 'policies')
    for policy in {row[0] for row in summary}:
        assert sorted(row[2] for row in bars[policy]) == sorted(row[2] for row in summary if row[0] == policy)
    assert sorted(row[1] for row in bars['peak allocated']) == sorted(row[3] for row in summary)

    points = data_of(folder, allocsim, name, 'pareto')
    for policy in {row[0] for row in summary}:
        assert sorted(points[policy]) == sorted((row[4], row[2]) for row in summary if row[0] == policy)
    both = {(row[4], row[2]) for row in summary}
    front = sorted(p for p in both if not any(q != p and q[0] <= p[0] and q[1] <= p[1] for q in both))
    assert points['Pareto front'] == front, (points['Pareto front'], front)

    split = {}
    for policy, params, peak, *_ in summary:
        value = re.search(r'(?:^|,)max_split_size_mb=(\d+)', params)
        if value:
            split.setdefault(policy, []).append((int(value[1]), peak))
    curves = data_of(folder, allocsim, name, 'max-split')
    assert sorted(rows for label, rows in curves.items() if not label.endswith('no limit')) == \
        sorted(sorted(rows) for rows in split.values())

    for plot, names in (('stalls', ['stall_ns']),
                        ('calls', ['device_allocs', 'device_frees', 'device_maps', 'device_unmaps'])):
        shown = sum(row[2] - row[1] for rows in data_of(folder, allocsim, name, plot).values() for row in rows)
        best = {}
        for row in sorted(summary, key=lambda row: (row[2], row[4], row[5])):
            best.setdefault(row[0], row[5])
        marks = ','.join('?' * len(names))
        stored = sum(db.execute(f'SELECT sum(value) FROM metrics WHERE run_id=? AND name IN ({marks})',
                                (id_, *names)).fetchone()[0] for id_ in best.values())
        assert shown == stored, (plot, shown, stored)
    db.close()


def check_layout(folder, allocsim, name):
    db = sqlite3.connect(os.path.join(folder, name))
    shown = data_of(folder, allocsim, name, 'layout', '--run', '1')
    states = {'free': 'free', 'live, coloured by size': 'live', 'freed, waits for a stream': 'pending'}
    for label, state in states.items():
        rows = db.execute("SELECT b.address - s.address, b.address - s.address + b.size, b.size FROM blocks b"
                          " JOIN segments s USING(run_id, segment) WHERE run_id=1 AND state=?", (state,)).fetchall()
        assert sorted(row[1:] for row in shown.get(label, [])) == sorted(rows), f'layout: {label}'
    db.close()


def check_histograms(folder, allocsim, name):
    with open(os.path.join(folder, 'h.text'), 'w', encoding='utf-8') as file:
        file.write('alloc a 1\nalloc b 512\nalloc c 1023\nalloc d 1024\nfree a\nfree d\n')
    # Sizes: 1 in the bin from 0 (position 0), 512 and 1023 in the bin of 2^9, 1024 in that of 2^10.
    rows = data_of(folder, allocsim, name, 'sizes', 'h.text')['']
    assert [row for row in rows if row[1]] == [(0, 1), (9, 2), (10, 1)], rows
    # a lives 4 events (bin of 4), d 2 (bin of 2); b and c stay.
    assert data_of(folder, allocsim, name, 'lifetimes', 'h.text') == {'2 freed; 2 stay': [(0, 1), (1, 1)]}


def two_million(folder, allocsim):
    """A store's run with two million samples, one of them a spike, plots in seconds and shows the spike."""
    path = os.path.join(folder, 'many.db')
    shutil.copy(os.path.join(folder, 's.db'), path)
    db = sqlite3.connect(path)
    db.execute('DELETE FROM samples')
    db.executemany('INSERT INTO samples VALUES(1,?,?,?,?,?,?,0)',
                   ((i, i, i % 977, i % 977, i % 977, 5000 if i == 1234567 else 1000) for i in range(2_000_000)))
    db.commit()
    db.close()
    shown = data_of(folder, allocsim, 'many.db', 'timeline', '--run', '1')
    assert (1234567, 5000) in shown['reserved'] and len(shown['reserved']) <= 4 * COLUMNS


def check_messages(folder, allocsim):
    report = (allocsim, 'report', '--db')
    empty = os.path.join(folder, 'none.db')
    shutil.copy(os.path.join(folder, 's.db'), empty)
    db = sqlite3.connect(empty)
    db.execute('PRAGMA foreign_keys=ON')
    db.execute('DELETE FROM runs')
    db.commit()
    db.close()
    with open(os.path.join(folder, 'zero.db'), 'wb'):
        pass
    refused(folder, 3, 'holds no runs', *report, 'none.db', '-o', 'r.html')
    refused(folder, 3, 'zero.db', *report, 'zero.db', '-o', 'r.html')
    refused(folder, 3, 'absent.db: there is no such store', *report, 'absent.db', '-o', 'r.html')
    refused(folder, 2, "no plot 'timelin'; did you mean 'timeline'", *report, 's.db', '-o', 'r.png', '--plot',
            'timelin')
    refused(folder, 3, 'no run 999; .*db ls', *report, 's.db', '-o', 'r.png', '--run', '999')
    refused(folder, 2, "'one' is no number", *report, 's.db', '-o', 'r.png', '--run', 'one')
    refused(folder, 2, r'must end in \.html', *report, 's.db', '-o', 'r.jpeg')
    refused(folder, 2, 'where to', *report, 's.db')
    refused(folder, 2, 'holds all of them', *report, 's.db', '-o', 'r.html', '--plot', 'pareto')
    refused(folder, 2, 'needs the trace file', *report, 's.db', '-o', 'r.png', '--plot', 'sizes')
    refused(folder, 3, 'run --layout', *report, 's.db', '-o', 'r.png', '--plot', 'layout', '--run', '2')
    refused(folder, 5, 'gnuplot is not installed.*gnuplot-nox', *report, 's.db', '-o', 'r.png', PATH=folder)
    refused(folder, 5, 'missing', *report, 's.db', '-o', 'missing/r.html')
    refused(folder, 5, '/proc', *report, 's.db', '-o', '/proc/r.html')
    left = [name for name in os.listdir(folder) if name.startswith('r.') or 'r.png' in name or 'r.html' in name]
    assert not left, f'a failure left {left}'
    with open(os.path.join(folder, 'gnuplot'), 'w', encoding='utf-8') as file:
        file.write('#!/bin/sh\necho "no fonts here" >&2\nexit 1\n')
    os.chmod(file.name, 0o755)
    with open(os.path.join(folder, 'r.png'), 'w', encoding='utf-8') as file:
        file.write('old')
    refused(folder, 5, 'gnuplot failed: no fonts here', *report, 's.db', '-o', 'r.png', PATH=folder)
    os.remove(os.path.join(folder, 'gnuplot'))
    with open(os.path.join(folder, 'r.png'), encoding='utf-8') as file:
        assert file.read() == 'old', 'a failure changed the output'


def check_pictures(folder, allocsim):
    for ending, begin, end in (('png', b'\x89PNG\r\n', b'IEND\xaeB`\x82'), ('pdf', b'%PDF-', b'%%EOF\n'),
                               ('svg', b'<?xml', b'</svg>\n')):
        call(folder, allocsim, 'report', '--db', 's.db', '-o', f'x.{ending}')
        with open(os.path.join(folder, f'x.{ending}'), 'rb') as file:
            picture = file.read()
        assert picture.startswith(begin) and picture.rstrip(b'\n').endswith(end.rstrip(b'\n')), ending
    xml.etree.ElementTree.parse(os.path.join(folder, 'x.svg'))


def check_page(folder, allocsim):
    call(folder, allocsim, 'report', '--quiet', '--db', 's.db', '-o', 'page.html', HOSTILE)
    with open(os.path.join(folder, 'page.html'), encoding='utf-8') as file:
        text = file.read()
    page = Page()
    page.feed(text)
    page.close()
    assert not page.faults and not page.open, (page.faults, page.open)
    assert 'script' not in page.count, 'a trace name became a script'
    assert page.count['svg'] >= 10 and '<script>alert(1)<!-- &amp; \\ @a $1?{_x}^y' in page.text, page.count
    assert not os.path.exists(os.path.join(folder, 'pwned')), 'a trace name was run'
    assert '@media print' in text
    for svg in re.findall(r'<svg.*?</svg>', text, re.S):
        xml.etree.ElementTree.fromstring(svg)
    return page


def check_again(folder, allocsim, page):
    """The command lines of the page give the store's runs again."""
    copy = os.path.join(folder, "plain.pickle")
    lines = re.findall(r'^allocsim run [^\n]*?(?=\s+# run \d+$)', page.text.replace(HOSTILE.replace(
        '\n', '?').replace("'", "'\\''"), 'plain.pickle'), re.M)
    assert lines, 'no command lines'
    shutil.copy(os.path.join(folder, HOSTILE), copy)
    for line in lines:
        words = shlex.split(line)
        call(folder, allocsim, *words[1:], '--db', 'again.db', '--quiet')
    first, again = (stores.content(os.path.join(folder, name)) for name in ('s.db', 'again.db'))
    assert first.keys() == again.keys(), (first.keys() ^ again.keys())
    for key, run in first.items():
        assert run[:2] == again[key][:2] and run[2]['metrics'] == again[key][2]['metrics'], key


def check_browser(folder):
    browser = shutil.which('chromium')
    if not browser:
        return 'Chromium is not installed: the page was not opened'
    url = 'file://' + os.path.join(folder, 'page.html')
    done = subprocess.run([browser, '--headless', '--no-sandbox', '--disable-gpu', '--enable-logging=stderr', '--v=0',
                           f'--user-data-dir={folder}/profile', '--virtual-time-budget=2000', '--dump-dom', url],
                          capture_output=True, timeout=120, check=False)
    errors = done.stderr.decode('utf-8', 'replace')
    if done.returncode:
        return f'Chromium does not start here: {errors[-200:]}'
    assert b'</svg>' in done.stdout, 'the page has no picture'
    assert 'CONSOLE' not in errors, errors
    return None


def main():
    allocsim = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix='allocsim-report-') as folder:
        recordings.write(os.path.join(folder, HOSTILE))
        quiet = ('--quiet', '--db', 's.db')
        call(folder, allocsim, 'run', *quiet, '--layout', HOSTILE)
        call(folder, allocsim, 'sweep', *quiet, '--policy', 'torchcache', '--policy', 'native', '--policy', 'bfc',
             '--max-split', '40:80:+20,none', HOSTILE)
        check_runs(folder, allocsim, 's.db')
        check_layout(folder, allocsim, 's.db')
        check_histograms(folder, allocsim, 's.db')
        two_million(folder, allocsim)
        check_messages(folder, allocsim)
        if not shutil.which('gnuplot'):
            print('skipped: gnuplot is not installed')
            return 77
        check_pictures(folder, allocsim)
        check_again(folder, allocsim, check_page(folder, allocsim))
        note = check_browser(folder)
        if note:
            print(note)
    return 0


if __name__ == '__main__':
    sys.exit(main())
