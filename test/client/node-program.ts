/** A program for Node: takes a lock, loses its connection, keeps the lock, gives it back. Run by node.test.ts. */
import { connect } from "../../src/client/client.ts";

const client = await connect({ servers: [process.argv[2] ?? ""], program: "node-program" });
const lock = await client.lock("from node", { duration: 5000 });
const waiting = client.lock("from node", { wait: 20_000 });
const renewed = new Promise<void>((resolve) => lock.onRenewed(() => resolve()));
await renewed;
const left = lock.expiresIn();
await lock.release();
const second = await waiting;
await second[Symbol.asyncDispose]();
await client.close();
console.log(JSON.stringify({ tokens: [lock.token, second.token], left, runtime: process.release.name }));
