/** A service manager for tests: receives datagrams at a local socket, through python3. */

export interface Datagrams extends AsyncDisposable {
  /** The next datagram. Rejects when the receiver has ended. */
  next(): Promise<string>;
}

const PROGRAM = `
import socket, sys, json
name = sys.argv[1]
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind("\\0" + name[1:] if name.startswith("@") else name)
print("bound", flush=True)
while True:
    print(json.dumps(s.recv(65536).decode()), flush=True)
`;

/** `address` is a path or `@name`, as in NOTIFY_SOCKET. */
export async function receiveDatagrams(address: string): Promise<Datagrams> {
  const child = Bun.spawn(["python3", "-c", PROGRAM, address], { stdout: "pipe", stderr: "inherit" });
  const lines = readLines(child.stdout);
  if ((await lines.next()).value !== "bound") throw new Error(`nothing receives at ${address}`);
  return {
    async next() {
      const { value, done } = await lines.next();
      if (done === true) throw new Error("the receiver has ended");
      return JSON.parse(value);
    },
    async [Symbol.asyncDispose]() {
      child.kill();
      await child.exited;
    },
  };
}

async function* readLines(stream: ReadableStream<Uint8Array>): AsyncGenerator<string, undefined> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of stream) {
    rest += decoder.decode(chunk, { stream: true });
    const lines = rest.split("\n");
    rest = lines.pop() ?? "";
    yield* lines;
  }
  return undefined;
}
