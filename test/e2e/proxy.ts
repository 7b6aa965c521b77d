/** A TCP proxy between a client and a server that can cut the wire in the ways that real networks do. */
import type { Socket, TCPSocketListener } from "bun";

interface Link {
  other: Socket<Link> | null;
  waiting: Uint8Array[];
}

export class CuttableProxy {
  readonly #listener: TCPSocketListener<Link>;
  readonly #sockets = new Set<Socket<Link>>();
  #cut = false;
  #stalled = false;

  private constructor(host: string, port: number) {
    const handlers = {
      data: (socket: Socket<Link>, bytes: Buffer) => {
        if (this.#cut) return;
        const { other, waiting } = socket.data;
        if (other === null || this.#stalled) waiting.push(Uint8Array.from(bytes));
        else other.write(bytes);
      },
      close: (socket: Socket<Link>) => {
        this.#sockets.delete(socket);
        if (!this.#cut) socket.data.other?.end();
      },
      error: () => undefined,
    };
    this.#listener = Bun.listen<Link>({
      hostname: "127.0.0.1",
      port: 0,
      socket: {
        ...handlers,
        open: (client) => {
          client.data = { other: null, waiting: [] };
          this.#sockets.add(client);
          void Bun.connect<Link>({
            hostname: host,
            port,
            data: { other: client, waiting: [] },
            socket: {
              ...handlers,
              open: (server) => {
                this.#sockets.add(server);
                client.data.other = server;
                if (!this.#stalled) for (const bytes of client.data.waiting.splice(0)) server.write(bytes);
              },
            },
          }).catch(() => client.end());
        },
      },
    });
  }

  static async start(target: string): Promise<CuttableProxy> {
    const colon = target.lastIndexOf(":");
    return new CuttableProxy(target.slice(0, colon), Number(target.slice(colon + 1)));
  }

  get address(): string {
    return `127.0.0.1:${this.#listener.port}`;
  }

  /** From now on nothing passes, and nobody is told: a black hole. */
  cut(): void {
    this.#cut = true;
  }

  /** From now on what is sent waits on the way. */
  stall(): void {
    this.#stalled = true;
  }

  /** What waited passes, and everything after it. */
  flow(): void {
    this.#stalled = false;
    for (const { data } of this.#sockets) {
      for (const bytes of data.waiting.splice(0)) data.other?.write(bytes);
    }
  }

  /** Breaks the connections there are; new ones work. */
  reset(): void {
    for (const socket of this.#sockets) socket.terminate();
  }

  close(): void {
    this.reset();
    this.#listener.stop(true);
  }
}
