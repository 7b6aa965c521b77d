/**
 * The one place that starts Workers: it knows where the build puts their files. Knows no worker's
 * messages. The build passes every `*.worker.ts` to the compiler as an entry of its own.
 */

/** Chunks of the compiled executable lie flat in its virtual root, so relative addresses do not work there. */
const compiled = import.meta.url.includes("/$bunfs/");

/** Starts the worker whose source file is `path`, relative to the root of the repository. */
export function startWorker(path: string): Worker {
  return compiled
    ? new Worker(`/$bunfs/root/${path.replace(/\.ts$/, ".js")}`)
    : new Worker(new URL(`../../${path}`, import.meta.url));
}
