#!/usr/bin/env python3
"""A sweep as a job array of a real Slurm: a task is killed and requeued, and the merged store is that of a local sweep.

usage: slurm_sweep.py ALLOCSIM TOOLS RECORDING [--keep]

Starts munged, slurmctld and slurmd of Debian's packages (munge, slurmctld, slurmd, slurm-client) on the loopback
interface, in a folder of its own and on free ports. Exit 77 (skipped), with the reason, where that is not possible.
"""
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'cli'))
import stores  # noqa: E402

PROGRAMS = ('munged', 'slurmctld', 'slurmd', 'sbatch', 'scontrol', 'squeue', 'scancel', 'sinfo')
PARTS = 3
SWEEP = ('--max-split', 'none,21:420:+1', '--capacity', '64GiB,80GiB,100GiB', 'step.zst')
CONF = """
ClusterName=allocsim
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CredType=cred/munge
SlurmUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SchedulerType=sched/builtin
SchedulerParameters=batch_sched_delay=0,sched_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=5
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=test Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


class Skip(Exception):
    pass


class Fail(Exception):
    pass


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(('127.0.0.1', 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def wait_for(what, condition, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    raise Fail(f'waited {seconds} s in vain for {what}')


class Cluster:
    """munged, slurmctld and slurmd, all below one folder; they end with it."""

    def __init__(self, folder):
        self.folder, self.processes = folder, []
        self.env = dict(os.environ, SLURM_CONF=os.path.join(folder, 'slurm.conf'))

    def start(self, *command):
        log = open(os.path.join(self.folder, command[0] + '.out'), 'wb')  # pylint: disable=consider-using-with
        self.processes.append(subprocess.Popen(command, cwd=self.folder, env=self.env, stdin=subprocess.DEVNULL,
                                               stdout=log, stderr=log))
        log.close()

    def ask(self, *command):
        return subprocess.run(command, cwd=self.folder, env=self.env, capture_output=True, text=True, timeout=60,
                              check=False)

    def logs(self):
        for name in sorted(os.listdir(self.folder)):
            if name.endswith(('.log', '.out')):
                with open(os.path.join(self.folder, name), encoding='utf-8', errors='replace') as file:
                    print(f'--- {name}\n' + ''.join(file.readlines()[-15:]))

    def up(self):
        host = socket.gethostname().split('.')[0]
        munge = os.path.join(self.folder, 'munge')
        for name in ('munge', 'state', 'spool'):
            os.mkdir(os.path.join(self.folder, name), 0o755)
        with open(os.path.join(munge, 'key'), 'wb', opener=lambda p, f: os.open(p, f, 0o400)) as file:
            file.write(os.urandom(1024))
        with open(self.env['SLURM_CONF'], 'w', encoding='utf-8') as file:
            file.write(CONF.format(host=host, ports=free_ports(2), folder=self.folder))
        self.start('munged', '--foreground', '--force', f'--key-file={munge}/key', f'--socket={munge}/socket',
                   f'--pid-file={munge}/pid', f'--log-file={munge}/log', f'--seed-file={munge}/seed')
        try:
            wait_for('munged', lambda: os.path.exists(f'{munge}/socket'), 10)
            self.start('slurmctld', '-D', '-i', '-c')
            wait_for('slurmctld', lambda: 'UP' in self.ask('scontrol', 'ping').stdout, 20)
            self.start('slurmd', '-D')
            wait_for('slurmd', lambda: 'idle' in self.ask('sinfo', '-h', '-o', '%t').stdout, 20)
        except Fail as problem:
            self.logs()
            raise Skip(f'Slurm does not come up on this machine: {problem}') from problem

    def down(self):
        for process in reversed(self.processes):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(timeout=10)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


def runs_in(path):
    try:
        return len(stores.about(path))
    except Exception:  # pylint: disable=broad-except
        return 0  # not there yet, or being created


def sweep(cluster, allocsim, tools):
    cluster.env['ALLOCSIM'] = allocsim
    submitted = cluster.ask(os.path.join(tools, 'slurm', 'submit'), f'{PARTS}%1', 'all.db', *SWEEP)
    if submitted.returncode:
        raise Fail(f'submit: {submitted.stdout}{submitted.stderr}')
    job = submitted.stdout.split()[2]
    second = os.path.join(cluster.folder, f'all.2-of-{PARTS}.db')

    def state(task):
        shown = cluster.ask('squeue', '-h', '-t', 'all', '-o', '%T', '-j', f'{job}_{task}').stdout.split()
        return shown[0] if shown else ''

    wait_for('some runs of part 2', lambda: runs_in(second) >= 5, 120)
    killed = cluster.ask('scancel', '--signal=KILL', '--full', f'{job}_2')
    if killed.returncode:
        raise Fail(f'scancel: {killed.stderr}')
    wait_for('the end of the killed task', lambda: state(2) not in ('RUNNING', 'COMPLETING'))
    before = stores.about(second)
    total = len(stores.content(os.path.join(cluster.folder, 'local.db')))
    if state(2) == 'COMPLETED' or not 5 <= len(before) < total // PARTS:
        raise Fail(f'the task was not killed midway: {state(2)}, {len(before)} of its {total // PARTS} runs stored')
    requeued = cluster.ask('scontrol', 'requeue', f'{job}_2')
    if requeued.returncode:
        raise Fail(f'requeue: {requeued.stderr}')
    # Slurm lets a requeued job wait for two minutes.
    wait_for('the requeued task', lambda: state(2) == 'PENDING')
    cluster.ask('scontrol', 'update', f'JobId={job}_2', 'StartTime=now')
    wait_for('the merged store', lambda: not cluster.ask('squeue', '-h', '-o', '%A').stdout.strip(), 240)
    after = stores.about(second)
    if {run: after.get(run) for run in before} != before:
        raise Fail('the requeued task repeated or lost runs that were stored')
    return len(before)


def check(folder, allocsim, tools, recording):
    subprocess.run([allocsim, 'import', '-q', recording, '-o', os.path.join(folder, 'step.zst')], check=True)
    local = subprocess.run([allocsim, 'sweep', '-q', '--format', 'csv', '--db', 'local.db', *SWEEP], cwd=folder,
                           stdout=subprocess.DEVNULL, check=False)
    if local.returncode:
        raise Fail(f'the local sweep: exit {local.returncode}')
    cluster = Cluster(folder)
    try:
        cluster.up()
        kept = sweep(cluster, allocsim, tools)
        expected = stores.content(os.path.join(folder, 'local.db'))
        merged = os.path.join(folder, 'all.db')
        if not os.path.exists(merged) or stores.content(merged) != expected:
            raise Fail('the merged store is not that of the local sweep')
        print(f'{len(expected)} runs in {PARTS} parts; one killed after {kept} runs, requeued, merged: as local')
    except Fail:
        cluster.logs()
        raise
    finally:
        cluster.down()


def main(allocsim, tools, recording):
    missing = [name for name in PROGRAMS if not shutil.which(name, path=os.environ['PATH'] + ':/usr/sbin:/sbin')]
    if missing:
        raise Skip(f'{", ".join(missing)} missing: tools/install_packages munge slurmctld slurmd slurm-client')
    if os.geteuid() != 0:
        raise Skip('slurmd needs root')
    os.environ['PATH'] += ':/usr/sbin:/sbin'
    folder = tempfile.mkdtemp(prefix='allocsim-slurm-')
    os.chmod(folder, 0o755)
    try:
        check(folder, os.path.abspath(allocsim), os.path.abspath(tools), os.path.abspath(recording))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == '__main__':
    try:
        main(*sys.argv[1:])
    except Skip as reason:
        print(f'skipped: {reason}')
        sys.exit(77)
    except Fail as problem:
        print(problem)
        sys.exit(1)
