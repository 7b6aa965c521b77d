/**
 * Signals of a server process: which are handled, which are ignored, and dying by one. Owns the
 * process's dispositions; what a signal means is run.ts's affair.
 */
import { constants } from "node:os";
import { openLibc } from "../clock/libc.ts";

export type HandledSignal = "SIGTERM" | "SIGINT" | "SIGQUIT" | "SIGHUP" | "SIGUSR1" | "SIGUSR2";

const SIG_DFL = 0n;
const SIG_IGN = 1n;

/**
 * A closed pipe must be an error of the write, and a server goes on without its terminal. Ignored in
 * the kernel and not by an empty handler: with one, a background write to a terminal that stops
 * background writers (stty tostop) would be tried again for ever.
 */
const IGNORED = ["SIGPIPE", "SIGTSTP", "SIGTTIN", "SIGTTOU"] as const;

const openSignal = () => openLibc({ signal: { args: ["i32", "u64"], returns: "u64" } }).symbols.signal;

/** Calls the handlers until the returned function is called. Ignored signals stay ignored. */
export function handleSignals(handlers: Readonly<Record<HandledSignal, () => void>>): () => void {
  const signal = openSignal();
  for (const name of IGNORED) signal(constants.signals[name], SIG_IGN);
  const entries = Object.entries(handlers);
  for (const [name, handler] of entries) process.on(name, handler);
  return () => {
    for (const [name, handler] of entries) process.off(name, handler);
  };
}

/** Ends the process by the signal itself, so that its parent sees it and the kernel may write a core. */
export function dieBy(name: "SIGQUIT"): never {
  openSignal()(constants.signals[name], SIG_DFL);
  process.kill(process.pid, name);
  // a signal to oneself arrives before kill returns, unless it is blocked
  return process.exit(128 + constants.signals[name]);
}

/** Lets the kernel end the process (SIGALRM) when it is still there after `seconds`, whatever blocks it. */
export function endWithin(seconds: number): void {
  const libc = openLibc({
    signal: { args: ["i32", "u64"], returns: "u64" },
    alarm: { args: ["u32"], returns: "u32" },
  }).symbols;
  libc.signal(constants.signals.SIGALRM, SIG_DFL);
  libc.alarm(seconds);
}
