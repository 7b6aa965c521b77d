/**
 * Load program that drives redis as a lock server the way its own documentation says: SET NX PX with a
 * random value, and compare-and-delete in a script. Prints one JSON line; knows nothing of lockd.
 */
import { LockdError } from "../../src/errors.ts";
import { readOptions } from "../lib/options.ts";
import { driveCycles } from "./load.ts";

// "Distributed Locks with Redis", redis.io, section "Correct Implementation with a Single Instance"
const COMPARE_AND_DELETE = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end`;

const options = readOptions(process.argv.slice(2), { port: 6379, workers: 1, separate: 0, seconds: 1, warmup: 0.3 });

const connect = async (): Promise<Bun.RedisClient> => {
  const client = new Bun.RedisClient(`redis://127.0.0.1:${options.port}`);
  await client.connect();
  return client;
};

const clients = await Promise.all(Array.from({ length: options.separate === 0 ? 1 : options.workers }, connect));
const run = crypto.randomUUID();
const sha = await clients[0]?.send("SCRIPT", ["LOAD", COMPARE_AND_DELETE]);

const cycles = Array.from({ length: options.workers }, (_, worker) => {
  const client = clients[worker % clients.length];
  const key = `bench-${run}-${worker}`;
  let count = 0;
  return async (): Promise<void> => {
    const value = `${run}-${count++}`;
    const taken: unknown = await client?.send("SET", [key, value, "NX", "PX", "10000"]);
    if (taken !== "OK") throw new LockdError("failed", `lock ${key}: held by another`);
    const deleted: unknown = await client?.send("EVALSHA", [String(sha), "1", key, value]);
    if (deleted !== 1) throw new LockdError("failed", `unlock ${key}: not held`);
  };
});

console.log(JSON.stringify(await driveCycles(cycles, { warmupSeconds: options.warmup, seconds: options.seconds })));
for (const client of clients) client.close();
