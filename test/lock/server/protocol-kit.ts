/**
 * A real server on loopback and real clients of it, with a wire between them on which a test can lose
 * frames of the server and cut connections. The store is in memory and takes its time.
 */
import { lockOptions } from "../../../plugins/lock/options.ts";
import { setupLock } from "../../../plugins/lock/server/instance.ts";
import { connect, type ConnectOptions, type LockdClient } from "../../../src/client/client.ts";
import { type Dial, dialTcp, type Transport } from "../../../src/client/transport.ts";
import { realClock, realTimers } from "../../../src/clock/real.ts";
import { HealthChecks } from "../../../src/observe/health.ts";
import { MetricsRegistry } from "../../../src/observe/metrics.ts";
import type { PluginInstance } from "../../../src/plugin/types.ts";
import type { StoreBatch } from "../../../src/store/types.ts";
import { encodeFrame, FrameDecoder } from "../../../src/wire/frame.ts";
import type { Frame } from "../../../src/wire/types.ts";
import { memoryLogger, startWorld } from "../../net/kit.ts";
import { FakeNamespace } from "./kit.ts";

/** Every batch is durable after up to two milliseconds. */
class SlowNamespace extends FakeNamespace {
  override async commit(batch: StoreBatch): Promise<void> {
    await Bun.sleep(Math.random() * 2);
    return super.commit(batch);
  }
}

export interface LockServer {
  port: number;
  /** frames that clients sent, in order */
  asked: Frame[];
  stop(): Promise<void>;
}

/** Where nothing asks who a client is, everybody may do everything. */
const EVERYBODY = { access: { allows: () => true, allowsAll: () => true, prefixes: (_principal: unknown, _action: unknown, within: string) => [within] } };

/** The lock plugin as it runs in a server process, with a store in memory. */
export async function startLockServer(): Promise<LockServer> {
  const clock = realClock();
  const timers = realTimers(clock);
  const config = Object.fromEntries(lockOptions.map(({ name, default: value }) => [name, typeof value === "number" ? value : null]));
  const asked: Frame[] = [];
  let instance: PluginInstance = {};
  const { server, logger } = startWorld({
    clock,
    timers,
    register(messages) {
      instance = setupLock({
        ...EVERYBODY,
        mode: "serve",
        nodeName: "node",
        software: "0.0.1",
        listenAddress: () => "127.0.0.1:0",
        config,
        logger: memoryLogger(),
        clock,
        timers,
        random: (count) => crypto.getRandomValues(new Uint8Array(count)),
        namespace: new SlowNamespace({ immediate: true }),
        store: { directoryId: "d".repeat(32), failed: new Promise(() => undefined), stats: () => ({ commits: 0, batches: 0, bytes: 0, lastCommitMs: 0, walBytes: 0 }) },
        messages: messages.registryFor("lock"),
        metrics: new MetricsRegistry(),
        health: new HealthChecks().scope("lock"),
        http: { route: () => undefined },
        provide: () => undefined,
        use: () => {
          throw new Error("the lock plugin needs no other");
        },
        fail: (error) => {
          throw error;
        },
      });
    },
    trace: (direction, frame) => {
      if (direction === "in") asked.push(frame);
    },
  });
  await instance.start?.();
  return {
    port: server.port,
    asked,
    async stop() {
      await server.stop({ drainMs: 1_000 });
      await instance.stop?.();
      const failed = logger.lines.filter((line) => line.level === "error");
      if (failed.length > 0) throw new Error(`the server logged errors: ${JSON.stringify(failed)}`);
    },
  };
}

export class Wire {
  /** whether a frame of the server is lost */
  lose: (frame: Frame) => boolean = () => false;
  /** frames of the server that the client was given */
  readonly given: Frame[] = [];
  readonly lost: Frame[] = [];
  readonly #open = new Set<Transport>();

  readonly dial: Dial = (target, handler) => {
    const decoder = new FrameDecoder({ frameBytesMax: 1 << 24 });
    const transport = dialTcp(target, {
      ...handler,
      opened: () => handler.opened(),
      drain: () => handler.drain(),
      data: (chunk) => decoder.push(chunk, (frame) => {
        if (this.lose(frame)) this.lost.push(frame);
        else {
          this.given.push(frame);
          handler.data(encodeFrame(frame.type, frame.id, frame.body));
        }
      }),
      closed: (error) => {
        this.#open.delete(transport);
        handler.closed(error);
      },
    });
    this.#open.add(transport);
    return transport;
  };

  /** Breaks the connection; the client may dial again. Whether there was one. */
  cut(): boolean {
    const open = [...this.#open];
    for (const transport of open) transport.destroy();
    return open.length > 0;
  }

  /** Loses the next frame of a type. */
  loseNext(type: string): void {
    this.lose = (frame) => {
      if (frame.type !== type) return false;
      this.lose = () => false;
      return true;
    };
  }
}

/** A client whose back-off takes a twentieth of its time; its other timers are looked at more often only. */
export async function join(server: LockServer, options: Partial<ConnectOptions> = {}): Promise<{ client: LockdClient; wire: Wire }> {
  const wire = new Wire();
  const clock = realClock();
  const timers = realTimers(clock);
  const client = await connect({
    servers: [`127.0.0.1:${server.port}`],
    dial: wire.dial,
    clock,
    timers: { after: (delayMs, fire) => timers.after(delayMs > 20 && delayMs <= 1_000 ? delayMs / 20 : delayMs, fire) },
    ...options,
  });
  return { client, wire };
}
