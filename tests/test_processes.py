"""Shutdown, fork and signals: nothing hangs, nothing crashes. Each in a process that begins with HEAD."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

HEAD = """
import atexit, faulthandler, gc, os, signal, sys, threading, time
import numpy as np
import qwisp_native as qn
from small import EXPERTS, TOP_K, layer, rows, same
faulthandler.enable()
device = qn.Device()
gate = layer().gate(device)
router = qn.Router(gate, TOP_K, fuse="last")
x = rows(3)
want = router(x)

def commands(count, layers=1):
    scratch = qn.RouteScratch(device, count, EXPERTS, TOP_K)
    buffer = device.command_buffer()
    with buffer.compute_encoder() as encoder:
        for _ in range(layers):
            xbuf = device.buffer(rows(count))
            qn.encode_moe_route_rows(encoder, xbuf, gate, scratch, rows=count, fuse="last")
    return buffer

def check_child(pid, seconds=60):
    end = time.time() + seconds
    while time.time() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            assert os.waitstatus_to_exitcode(status) == 0, status
            return
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    raise SystemExit("the child hangs")
"""


def run(code: str, expected: int = 0, seconds: float = 120, device: str = "") -> str:
    """Runs HEAD and `code` in a fresh interpreter, on `device` if given; returns its output."""
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", HEAD + code],
        env=os.environ | {"PYTHONPATH": path} | ({"QWISP_DEVICE": device} if device else {}),
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == expected, f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}"
    assert "Fatal" not in done.stderr, done.stderr
    assert "terminate" not in done.stderr, done.stderr
    return done.stdout


def test_memory_is_given_back() -> None:
    """Thousands of objects come and go; what stays is less than a tenth of what they took."""
    code = """
def resident():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

def work(count):
    for _ in range(count):
        device.empty((64, 4096), np.float16)
        qn.RouteScratch(device, 64, EXPERTS, TOP_K)
        layer().gate(device)
        router(x)
        commands(2).commit()

work(100)
gc.collect()
before = resident()
work(400)
gc.collect()
print(resident() - before)
"""
    if not Path("/proc/self/statm").exists():
        pytest.skip("needs /proc")
    assert int(run(code)) < 400 * 64 * 4096 * 2 / 10


# ---- shutdown


@pytest.mark.parametrize("leave", ["pass", "sys.exit(0)", "del device, gate, router", "os.abort"])
def test_exit_with_work_in_flight(leave: str) -> None:
    if leave == "os.abort":
        run("commands(64, 20).commit()\nos._exit(0)")
    else:
        run(f"for _ in range(4): commands(64, 10).commit()\n{leave}")


@pytest.mark.parametrize("daemon", [True, False])
def test_exit_while_threads_wait(daemon: bool) -> None:
    code = f"""
def wait():
    buffer = commands(64, 10)
    buffer.commit()
    buffer.wait_until_completed()

threads = [threading.Thread(target=wait, daemon={daemon}) for _ in range(4)]
for thread in threads: thread.start()
time.sleep(0.05)
"""
    run(code)


@pytest.mark.parametrize("seconds", [0, 0.001, 0.02, 0.1])
def test_exit_while_daemon_threads_route(seconds: float) -> None:
    code = f"""
def work():
    while True: router(x, return_logits=True)

for _ in range(6): threading.Thread(target=work, daemon=True).start()
time.sleep({seconds})
"""
    for _ in range(3):
        run(code)


def test_routes_while_the_interpreter_goes() -> None:
    """In an atexit hook that runs after ours, and in a finaliser of module teardown."""
    code = """
class Last:
    def __init__(self): self.router, self.x, self.want, self.same = router, x, want, same
    def __del__(self):
        if not self.same(self.router(self.x), self.want): os._exit(3)

last = Last()
keep = sys.modules
sys.last = last
print(same(router(x), want))
"""
    early = """
import atexit
def late():
    if not same(router(x), want): os._exit(4)
atexit.register(late)
"""
    assert run(code) == "True\n"
    done = subprocess.run(
        [sys.executable, "-c", early + HEAD],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_interrupt_while_routing() -> None:
    code = """
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job inherits "ignore"
threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    while True: router(x)
except KeyboardInterrupt:
    pass
assert same(router(x), want)
"""
    run(code)


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="no /proc")
def test_signals_are_left_to_the_threads_of_the_host() -> None:
    code = """
def threads(): return set(os.listdir("/proc/self/task"))
before = threads()
device = qn.Device()
device.threads = 2
gate = layer().gate(device)
large = qn.Gate.quantize(device, np.zeros((256, 2048), np.float16))
router = qn.Router(large, TOP_K)
for _ in range(100): router(np.zeros((256, 2048), np.float16))
commands(3).commit()
time.sleep(0.1)
new = threads() - before
for thread in new:
    with open(f"/proc/self/task/{thread}/status") as file:
        blocked = next(line for line in file if line.startswith("SigBlk"))
    assert int(blocked.split()[1], 16) >> (signal.SIGINT - 1) & 1, (thread, blocked)
print(len(new))
"""
    assert int(run(code)) == 2  # the queue's and the team's


def test_imported_again() -> None:
    code = """
for name in [name for name in sys.modules if name.startswith("qwisp_native")]: del sys.modules[name]
try:
    import qwisp_native
except ImportError:
    pass
assert same(router(x), want)
"""
    run(code)


def test_another_interpreter() -> None:
    """Importing there may be refused, but this one goes on."""
    code = """
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
other = interpreters.create()
try:
    print(interpreters.run_string(other, "import qwisp_native as qn; qn.Device()"))
except Exception as error:
    print(type(error).__name__)
interpreters.destroy(other)
assert same(router(x), want)
"""
    run(code)


# ---- fork

# GPUs do not survive one; the cpu device does.
forks = pytest.mark.skipif(
    not hasattr(os, "fork") or sys.platform == "darwin", reason="Metal does not survive a fork"
)


@forks
def test_fork_after_use() -> None:
    code = """
for _ in range(5):
    pid = os.fork()
    if pid == 0:
        assert same(router(x), want)
        new = qn.Device()
        assert same(qn.Router(layer().gate(new), TOP_K, fuse="single")(x), want)
        sys.exit(0)
    check_child(pid)
    assert same(router(x), want)
"""
    run(code, device="cpu")


@forks
def test_fork_with_work_in_flight() -> None:
    code = """
buffer = commands(64, 10)
buffer.commit()
open_one = device.command_buffer()
encoder = open_one.compute_encoder()
pid = os.fork()
if pid == 0:
    try:
        buffer.wait_until_completed()
    except qn.DeviceError as error:
        assert "fork" in str(error), error
    encoder.end_encoding()
    open_one.commit()
    open_one.wait_until_completed()
    assert same(router(x), want)
    sys.exit(0)
check_child(pid)
buffer.wait_until_completed()
assert same(router(x), want)
"""
    run(code, device="cpu")


@forks
def test_fork_while_threads_route() -> None:
    code = """
stop = False
def work():
    while not stop: router(x)

threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
for _ in range(10):
    pid = os.fork()
    if pid == 0:
        ok = same(router(x), want) and same(qn.Router(layer().gate(qn.Device()), TOP_K)(x), want)
        os._exit(0 if ok else 5)
    check_child(pid)
stop = True
for thread in threads: thread.join()
"""
    run(code, device="cpu")


@forks
def test_a_forked_child_exits_by_itself() -> None:
    """Its exit hooks must not wait for threads that only the parent has."""
    code = """
def work():
    while True: router(x)

for _ in range(3): threading.Thread(target=work, daemon=True).start()
for _ in range(5):
    pid = os.fork()
    if pid == 0:
        sys.exit(0)
    check_child(pid)
"""
    run(code, device="cpu")


@forks
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing(method: str, tmp_path: Path) -> None:
    code = f"""
import multiprocessing
from small import TOP_K, layer, rows, same
import qwisp_native as qn

def work(seed):
    return [each.tobytes() for each in qn.Router(layer().gate(qn.Device("cpu")), TOP_K)(rows(2, seed))]

if __name__ == "__main__":
    here = [work(seed) for seed in range(4)]
    with multiprocessing.get_context({method!r}).Pool(2) as pool:
        assert pool.map(work, range(4)) == here
"""
    script = tmp_path / "script.py"
    script.write_text(code)
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    done = subprocess.run(
        [sys.executable, str(script)],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.cuda
def test_a_forked_child_is_refused_what_cuda_made() -> None:
    code = """
pid = os.fork()
if pid == 0:
    for use in (lambda: router(x), lambda: device.buffer(x), lambda: qn.Router(gate, TOP_K)):
        try:
            use()
        except RuntimeError as error:
            assert "CUDA does not survive a fork" in str(error), error
        else:
            os._exit(5)
    try:
        qn.Device("cuda")
    except qn.DeviceError:
        pass
    cpu = qn.Device("cpu")
    os._exit(0 if same(qn.Router(layer().gate(cpu), TOP_K, fuse="last")(x), want) else 6)
check_child(pid)
assert same(router(x), want)
"""
    run(code, device="cuda")


def test_signals_reach_python() -> None:
    """The device's own threads take none."""
    code = """
got = []
signal.signal(signal.SIGUSR1, lambda *_: got.append(1))
for _ in range(20):
    router(x)
    os.kill(os.getpid(), signal.SIGUSR1)
end = time.time() + 10
while len(got) < 1 and time.time() < end: time.sleep(0.01)
assert got
"""
    assert signal.SIGUSR1
    run(code)
