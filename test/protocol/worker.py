"""What the tests let the Python client of examples/python do. One command, whose words say what happens:

  rounds OBJECT COUNT         takes the lock COUNT times and notes each entering and leaving in $JOURNAL
  hold OBJECT DURATION GRACE  holds it until stdin ends, noting entering, and the loss when the lock is not held any more
  try OBJECT WAIT             prints the token, or the code of the failure
  frames                      decodes frames from stdin, one in hex a line, and prints them encoded again
"""
import os, sys, threading, time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples/python"))
sys.dont_write_bytecode = True
from lockd_client import Lock, LockdError, decode, encode

host, _, port = os.environ.get("LOCKD_CONNECT", "none:0").rpartition(":")
server = (host, int(port))


def note(*words):
    """One line, in one write, so that the order in the file is the order in time."""
    file = os.open(os.environ["JOURNAL"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(file, (" ".join(map(str, words)) + "\n").encode())
    os.close(file)


def rounds(name, count):
    for _ in range(int(count)):
        with Lock(name, server=server, wait=60_000) as lock:
            note("enter", os.getpid(), lock.token)
            time.sleep(0.002)
            note("leave", os.getpid(), lock.token)


def hold(name, duration, grace):
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    with Lock(name, server=server, wait=60_000, duration=int(duration), grace=int(grace), unlockDuration=1500) as lock:
        note("enter", os.getpid(), lock.token)
        while lock.held and not ended.wait(0.005):
            pass
        note("leave" if lock.held else "lost", os.getpid(), lock.token)


def attempt(name, wait):
    with Lock(*([name] if name else []), server=server, wait=int(wait)) as lock:
        print(lock.token)


def frames():
    for line in sys.stdin:
        data = bytes.fromhex(line)
        item, end = decode(data, 4)
        print(end == len(data) and (data[:4] + encode(item)).hex())


try:
    {"rounds": rounds, "hold": hold, "try": attempt, "frames": frames}[sys.argv[1]](*sys.argv[2:])
except LockdError as error:
    print(error.code)
    sys.exit(75)
