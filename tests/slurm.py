"""A Slurm of two nodes on this machine, started from the installed programs, without systemd and cgroups."""

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "sinfo")
NODES = ("n1", "n2")
_CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
AuthType=auth/munge
AuthInfo=socket={place}/munge.socket
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={place}/state
SlurmdSpoolDir={place}/spool/%n
SlurmctldPidFile={place}/slurmctld.pid
SlurmdPidFile={place}/slurmd-%n.pid
SlurmctldLogFile={place}/log/slurmctld.log
SlurmdLogFile={place}/log/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=0
SlurmdTimeout=10
KillWait=2
SchedulerParameters=sched_interval=1
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=2 RealMemory=4000 State=UNKNOWN
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=2 RealMemory=4000 State=UNKNOWN
PartitionName=main Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
"""


def missing():
    """Why no Slurm can be started here; empty if one can."""
    if os.geteuid() != 0:
        return "slurmd starts jobs as root only"
    lacking = [name for name in PROGRAMS if shutil.which(name) is None]
    return f"there is no {', '.join(lacking)}: make test-slurm installs them" if lacking else ""


class Slurm:
    """The daemons; :attr:`environment` is for commands that talk to them."""

    def __init__(self, place):
        self.place = Path(place)
        for name in ("state", "log", "key", *(f"spool/{node}" for node in NODES)):
            (self.place / name).mkdir(parents=True)
        configuration = self.place / "slurm.conf"
        values = {"host": socket.gethostname(), "place": self.place, "ports": free_ports(3)}
        configuration.write_text(_CONFIGURATION.format(**values))
        self.environment = {**os.environ, "SLURM_CONF": str(configuration)}
        key = self.place / "key" / "munge.key"
        key.write_bytes(secrets.token_bytes(1024))
        key.chmod(0o400)
        key.parent.chmod(0o700)
        own = {"key-file": key, "socket": "munge.socket", "pid-file": "munged.pid", "log-file": "log/munged.log"}
        flags = [f"--{name}={self.place / value}" for name, value in {**own, "seed-file": "munge.seed"}.items()]
        try:
            self.run("munged", "--force", *flags)
            self.run("slurmctld")
            for node in NODES:
                self.run("slurmd", "-N", node)
            self.wait(lambda: self.run("sinfo", "-h", "-t", "idle", "-o", "%D").stdout.strip() == "2", 60)
        except BaseException:
            self.stop()
            raise

    def run(self, *command, check=True):
        """Run a command of Slurm."""
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=120, check=False)
        assert not check or done.returncode == 0, (command, done.stdout, done.stderr)
        return done

    def jobs(self, *flags):
        """Lines of squeue: state, node and job of each."""
        return self.run("squeue", "-h", "-r", "-o", "%T %N %i", *flags).stdout.split("\n")[:-1]

    def take_down(self, node):
        """A node goes down, with the jobs on it."""
        self.run("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=test")

    def bring_back(self, node):
        """The node is there again."""
        self.run("scontrol", "update", f"NodeName={node}", "State=RESUME")

    @staticmethod
    def wait(condition, seconds):
        """Wait for something to become true."""
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, "it did not happen in time"
            time.sleep(0.3)

    def stop(self):
        """End all jobs and daemons."""
        with contextlib.suppress(Exception):
            self.run("scancel", "--user=root", check=False)
            self.wait(lambda: not self.jobs(), 20)
        for name in (*(f"slurmd-{node}" for node in NODES), "slurmctld", "munged"):
            with contextlib.suppress(OSError, ValueError):
                os.kill(int((self.place / f"{name}.pid").read_text()), signal.SIGTERM)


def free_ports(n):
    """Ports that nobody uses now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports
