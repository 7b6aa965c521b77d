/**
 * How commands speak: results on stdout, everything else on stderr, JSON or text. Owns the rules of
 * the command-line contract for streams; knows no command.
 */

export interface Output {
  /** whether --json was given */
  readonly json: boolean;
  /** whether stdout is a terminal, so that colours and progress make sense (NO_COLOR respected) */
  readonly colour: boolean;
  /** One result: a JSON object on one line with --json, else the text. */
  result(json: Readonly<Record<string, unknown>>, text: string): Promise<void>;
  /** Raw text or bytes to stdout, for tables and streams; resolves when the pipe took it. */
  write(data: string | Uint8Array): Promise<void>;
  /**
   * Waits for work that may find nothing to write for long, such as following events, and rejects soon after
   * the reader of stdout has left, as a write would. The work is not stopped: end what it uses in `finally`.
   */
  whileRead<T>(work: Promise<T>): Promise<T>;
  /** A sentence for people, on stderr; nothing with --json. */
  note(sentence: string): void;
  /** A warning on stderr: `lockd: warning: …`, with --json an object `{"warning":{…}}`. */
  warn(sentence: string): void;
}
