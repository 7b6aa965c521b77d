"""A client of the lock service lockd in Python's standard library alone, written from docs/protocol.md.

    with Lock("nightly-backup", server=("127.0.0.1", 4050), wait=5000) as lock:
        write(data, token=lock.token)    # a resource that checks tokens refuses older ones
        assert lock.held                 # by this machine's clock; renewed in the background meanwhile

Failures are LockdError with a code: timedout, lost, unavailable, …; OSError when no server is reached.
It does not reconnect: when the connection breaks, the lock is held until its deadline and no longer.
"""
import base64, os, socket, struct, sys, threading, time

class LockdError(Exception):
    def __init__(self, code, message, **_):
        super().__init__(f"{code}: {message}")
        self.code = code

def head(major, number):
    size = next(i for i, end in enumerate((24, 1 << 8, 1 << 16, 1 << 32, 1 << 53)) if number < end)
    return bytes([major << 5 | (23 + size if size else number)]) + (number.to_bytes(1 << size - 1, "big") if size else b"")

def encode(value):
    if value is None or isinstance(value, bool): return {False: b"\xf4", True: b"\xf5", None: b"\xf6"}[value]
    if isinstance(value, int): return head(0, value) if value >= 0 else head(1, -1 - value)
    if isinstance(value, str): return head(3, len(value.encode())) + value.encode()
    if isinstance(value, bytes): return head(2, len(value)) + value
    if isinstance(value, dict): return head(5, len(value)) + b"".join(encode(key) + encode(value[key]) for key in value)
    return head(4, len(value)) + b"".join(map(encode, value))

def decode(data, at=0):
    major, number, at = data[at] >> 5, data[at] & 31, at + 1
    if major == 7 and number < 24: return {20: False, 21: True, 22: None}[number], at
    if number >= 24:
        raw = data[at:at + (1 << number - 24)]
        number, at = int.from_bytes(raw, "big"), at + len(raw)
        if major == 7: return struct.unpack({2: ">e", 4: ">f", 8: ">d"}[len(raw)], raw)[0], at
    if major < 2: return (-1 - number if major else number), at
    if major < 4: return (data[at:at + number].decode() if major == 3 else data[at:at + number]), at + number
    items = []
    for _ in range(number * (major - 3)):
        item, at = decode(data, at)
        items.append(item)
    return (items if major == 4 else dict(zip(items[::2], items[1::2]))), at

now = lambda: time.clock_gettime(time.CLOCK_BOOTTIME)  # seconds; goes on while the machine sleeps
usable = lambda ms: (ms - 0.02 * ms - 50) / 1000       # of a lease: clocks drift, and acting takes time

class Lock:
    """A session with one lock. `wait` in ms, None: without end; options as in LOCK: mode, permits, …"""
    def __init__(self, *objects, server=("127.0.0.1", 4050), wait=None, duration=10_000, grace=5_000, **options):
        self.grace, self.duration, self.every = grace / 1000, duration, min(grace, duration) / 3000
        self.mutex, self.buffer, self.sent, self.claimed_from, self.error = threading.Lock(), b"", [0], float("inf"), None
        self.token, self.seen, self.deadline, self.lost, self.released = None, 0, 0, None, False
        self.socket = socket.create_connection(server, timeout=5)
        try:
            me = {"name": os.environ.get("USER", "python"), "host": socket.gethostname(), "pid": os.getpid(), "program": sys.argv[0]}
            self.write("HELLO", 0, {"protocol": 1, "role": "client", **me, "software": "lockd_client.py", "features": []})
            session = base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=")
            self.send("SESSION", {"session": session, "secret": os.urandom(32), "generation": 1, "grace": grace})
            self.send("LOCK", {"request": "1", "objects": objects, "wait": wait, "duration": duration, **options})
            self.pump(lambda: self.token)
        except BaseException:
            self.socket.close()  # a request that waits is passed over from here on
            raise
        self.thread = threading.Thread(target=self.keep, daemon=True)
        self.thread.start()

    @property
    def held(self): return self.lost is None and now() < self.deadline

    def unlock(self):
        self.send("UNLOCK", {"handle": self.handle})
        self.thread.join(5)
        self.socket.close()
        if not self.released: raise self.error or LockdError("unavailable", "UNLOCK was not answered")

    def __enter__(self): return self
    def __exit__(self, *_): self.unlock()

    def write(self, type, id, body):
        data = encode([type, id, body])
        self.socket.sendall(struct.pack(">I", len(data)) + data)

    def send(self, type, body):
        with self.mutex:
            self.sent.append(now())  # taken before the bytes leave; its index is the id
            self.write(type, len(self.sent) - 1, body)
            return len(self.sent) - 1

    def pump(self, done):
        due = heard = now()
        while not done():
            if now() >= due:
                self.send("RENEW", {"seen": self.seen, "tokens": [self.token] if self.token and not self.lost else []})
                due = now() + self.every
            self.socket.settimeout(max(due - now(), 0.001))
            try:
                data = self.socket.recv(65536)
            except socket.timeout:
                if now() - heard > self.grace: raise LockdError("unavailable", "nothing heard of the server") from None
                continue
            if not data: raise LockdError("unavailable", "the server closed the connection")
            self.buffer, heard = self.buffer + data, now()
            while len(self.buffer) >= 4 and len(self.buffer) >= (end := 4 + int.from_bytes(self.buffer[:4], "big")):
                frame, self.buffer = self.buffer[4:end], self.buffer[end:]
                self.take(*decode(frame)[0])

    def take(self, type, id, body):
        if type == "PING":
            with self.mutex: self.write("PONG", id, {})
        elif type == "LOCKED":
            self.token, self.handle, self.seen, self.duration = body["token"], body["handle"], body["grant"], body["duration"]
            self.deadline = self.sent[body["processed"]] + usable(body["left"])
            self.claimed_from = len(self.sent)  # no RENEW before this id names the token
        elif type == "RENEWED" and id >= self.claimed_from:
            if body["lost"]: self.lost = body["lost"][0]["reason"]
            else: self.deadline = max(self.deadline, self.sent[body["processed"]] + usable(self.duration))
        elif type == "UNLOCKED" and id: self.released = True
        elif type in ("UNLOCKING", "UNLOCKED"): self.lost = body["reason"]
        elif type in ("ERROR", "LOCKFAILED"): raise LockdError(**body)
        elif type == "UNKNOWN": raise LockdError("protocol", f"the server does not know {body['type']}")

    def keep(self):
        try:
            self.pump(lambda: self.released)
        except (OSError, LockdError) as error:
            self.error = error if isinstance(error, LockdError) else LockdError("unavailable", str(error))

if __name__ == "__main__":
    if len(sys.argv) != 3: sys.exit("usage: lockd_client.py OBJECT SECONDS    (holds a lock that long; server: $LOCKD_CONNECT, by default 127.0.0.1:4050)")
    host, _, port = os.environ.get("LOCKD_CONNECT", "127.0.0.1:4050").rpartition(":")
    try:
        with Lock(sys.argv[1], server=(host.strip("[]"), int(port))) as held:
            print(f"{sys.argv[1]} is held, token {held.token}", flush=True)
            time.sleep(float(sys.argv[2]))
            if not held.held: sys.exit(f"lockd_client.py: lost: {held.lost or held.error}")
    except (LockdError, OSError) as error: sys.exit(f"lockd_client.py: {error}")
