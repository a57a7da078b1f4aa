"""Files of the source tree, and the way every check of this folder reports.

A check is a function that takes the root and yields findings, one line of text each. Run as a program it
prints them and exits 1 if there are any.
"""
import os
import shutil
import subprocess
import sys

SKIPPED_EXIT = 77  # what Meson calls a skipped test
SKIPPED_FOLDERS = ('.git', '.cache', '__pycache__')


def files(root):
    """Paths relative to root, sorted: what git tracks or would track; without git, everything but builds."""
    if shutil.which('git') and os.path.exists(os.path.join(root, '.git')):
        listed = subprocess.run(['git', '-C', root, 'ls-files', '-z', '--cached', '--others', '--exclude-standard'],
                                capture_output=True, check=False)
        if listed.returncode == 0:
            names = [name for name in listed.stdout.decode().split('\0') if name]
            return sorted(name for name in names if os.path.isfile(os.path.join(root, name)))
    found = []
    for folder, folders, names in os.walk(root):
        folders[:] = [f for f in folders if f not in SKIPPED_FOLDERS and not f.startswith('build')]
        found += [os.path.relpath(os.path.join(folder, name), root) for name in names]
    return sorted(found)


def read_text(root, name):
    """The text of a file, or None where it is not text."""
    with open(os.path.join(root, name), 'rb') as stream:
        data = stream.read()
    if b'\0' in data:
        return None
    try:
        return data.decode('utf-8')
    except UnicodeDecodeError:
        return None


def main(check, *arguments):
    """Runs check(root, *arguments) as a program."""
    findings = list(check(*arguments))
    for finding in findings:
        print(finding)
    sys.exit(1 if findings else 0)
