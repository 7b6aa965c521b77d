/**
 * `lockd __complete`: what may stand at the cursor, as the scripts of `lockd completion` read it: texts that
 * each end in NUL, the kind first. Says nothing when it does not know: a shell has no place for messages.
 */
import type { LockdClient } from "../../client/client.ts";
import { CLIENT_SECURITY_OPTIONS } from "../../security/option-names.ts";
import { clipped, printable } from "../../text.ts";
import { scanFlags } from "../arguments.ts";
import { bashPiece, readBashLine } from "../completion/bash-words.ts";
import { propose } from "../completion/proposals.ts";
import { connectClient } from "../connect.ts";
import type { ProgramParts } from "../program-parts.ts";
import type { CommandModule, CompletionSource, CompletionWord } from "../types.ts";

/** A person waits at the prompt: what no server has said by then is left out. */
const SERVER_MS_MAX = 300;
/** More are no help to anybody. */
const WORDS_MAX = 500;
const HELP_BYTES_MAX = 60;

export function complete(parts: ProgramParts): CommandModule {
  return {
    async run({ positionals: [shell = "", ...words], out }) {
      const line = shell === "bash" ? readBashLine(words[1] ?? "", words[0] ?? "") : null;
      if (shell === "bash" && line === null) return 0;
      const before = line === null ? words.slice(0, -1) : line.before.slice(1);
      const current = line?.current ?? words.at(-1) ?? "";
      const proposals = propose(before, current, await parts.commands(), parts.coreOptions);
      const texts: string[] = [proposals.kind];
      if (proposals.kind === "words") {
        const known = proposals.source === undefined ? [] : await fromServer(parts, proposals.source, before, current);
        for (const word of [...proposals.words, ...known]) {
          if (line !== null) texts.push(bashPiece(word.word, line));
          else texts.push(...(shell === "zsh" ? zshTexts(word) : fishTexts(word)));
        }
      }
      await out.write(texts.map((text) => `${text}\0`).join(""));
      return 0;
    },
  };
}

/** What the servers of the line that is being written say in time; nothing when there is none, or it refuses. */
async function fromServer(parts: ProgramParts, source: CompletionSource, before: readonly string[], prefix: string): Promise<readonly CompletionWord[]> {
  const found: CompletionWord[] = [];
  const over = new AbortController();
  const ask = async (): Promise<void> => {
    const { flags } = scanFlags(before, ["config", "connect", ...CLIENT_SECURITY_OPTIONS]);
    const [values, { complete: completer }] = await Promise.all([parts.readOptions(flags), source.load()]);
    const client: LockdClient = await connectClient(values, { program: "lockd completion", signal: over.signal });
    for await (const word of completer(client, prefix)) {
      if (over.signal.aborted || found.length >= WORDS_MAX) return;
      if (word.word.startsWith(prefix)) found.push(word);
    }
  };
  // a line with a mistake, no server, no right to look: all of it means that nothing is known
  await Promise.race([ask().catch(() => undefined), Bun.sleep(SERVER_MS_MAX)]);
  over.abort();
  return [...found];
}

/** The word, and the line that the menu shows for it. */
function zshTexts({ word, help }: CompletionWord): readonly string[] {
  return [word, help === "" ? printable(word) : `${printable(word)}  -- ${shortHelp(help)}`];
}

/** fish cuts at the first tab, so a name with one cannot be offered. */
function fishTexts({ word, help }: CompletionWord): readonly string[] {
  return word.includes("\t") ? [] : [`${word}\t${shortHelp(help)}`];
}

function shortHelp(help: string): string {
  const text = printable(help);
  const short = clipped(text, HELP_BYTES_MAX);
  return short === text ? text : `${short}…`;
}
