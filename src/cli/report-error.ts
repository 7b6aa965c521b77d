/**
 * The end of a failed command: its message and its exit code. The one place where errors of the
 * command line become text; knows no command.
 */
import { AssertionError, LockdError } from "../errors.ts";
import { escapeProse } from "../text.ts";
import { ClosedPipeError } from "./terminal-output.ts";

/** As if the write had ended the process: 128 + SIGPIPE. */
const CLOSED_PIPE_EXIT = 141;

export interface ErrorReport {
  exitCode: number;
  /** complete lines for stderr */
  text: string;
}

/** What to say of anything that was thrown, and the exit code of the contract. */
export function reportError(thrown: unknown, form: { json: boolean; stack: boolean }): ErrorReport {
  if (thrown instanceof ClosedPipeError) return { exitCode: CLOSED_PIPE_EXIT, text: "" };
  if (thrown instanceof LockdError) {
    const stack = form.stack && thrown.code === "failed" ? causeStack(thrown.cause) : null;
    return { exitCode: thrown.exitCode, text: form.json ? jsonLine(thrown.toJSON(), stack) : textLines(thrown.message, thrown.hint, stack) };
  }
  const message = thrown instanceof Error ? thrown.message || thrown.name : String(thrown);
  const stack = form.stack ? causeStack(thrown) : null;
  const hint = hintOf(thrown, form.stack);
  return {
    exitCode: 1,
    text: form.json
      ? jsonLine({ code: "failed", message, ...(hint === undefined ? {} : { hint }), retryable: false }, stack)
      : textLines(message, hint, stack),
  };
}

function hintOf(thrown: unknown, stack: boolean): string | undefined {
  const where = stack ? "" : "; --log-level debug shows where";
  return thrown instanceof AssertionError ? `this is a defect of lockd${where}` : `this was not expected${where}`;
}

function textLines(message: string, hint: string | undefined, stack: string | null): string {
  const lines = [`lockd: ${message}`, ...(hint === undefined ? [] : [`  ${hint}`]), ...(stack === null ? [] : [stack])];
  return `${escapeProse(lines.join("\n"))}\n`;
}

function jsonLine(error: Readonly<Record<string, unknown>>, stack: string | null): string {
  return `${JSON.stringify({ error: stack === null ? error : { ...error, stack } })}\n`;
}

const causeStack = (thrown: unknown): string | null => (thrown instanceof Error ? (thrown.stack ?? null) : null);
