/**
 * Real shells on terminals of their own, with lockd's completion loaded the way users load it. What a line
 * means after keys were pressed is asked of the shell itself: `show` in front of it writes down its words.
 */
import { existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { environment, eventually, LOCKD } from "./kit.ts";

export type ShellName = "bash" | "zsh" | "fish";
export const SHELLS: readonly ShellName[] = ["bash", "zsh", "fish"];

/** To the start of the line, in the keys of all three. */
const LINE_START = "\x01";
const PROMPT = "ready>";

const START: Readonly<Record<ShellName, (folder: string) => { argv: readonly string[]; files: Readonly<Record<string, string>> }>> = {
  bash: (folder) => ({
    argv: ["bash", "--noprofile", "--rcfile", join(folder, "rc"), "-i"],
    files: {
      rc: `PS1='${PROMPT}'\nbind 'set enable-bracketed-paste off'\nbind 'set bell-style none'\nbind 'set show-all-if-ambiguous on'\nshow() { printf '%s\\0' "$@" > "$SHOWN.new"; mv "$SHOWN.new" "$SHOWN"; }\nsource <(lockd completion bash)\n`,
    },
  }),
  // the usual Tab of zsh also expands, and so runs, a substitution in the word at the cursor of any command
  zsh: () => ({
    argv: ["zsh", "-d", "-i"],
    files: {
      ".zshrc": `PS1='${PROMPT}'\nunsetopt prompt_cr prompt_sp beep\nbindkey -e\nbindkey '^I' complete-word\nautoload -Uz compinit && compinit -u -D\nshow() { printf '%s\\0' "$@" > "$SHOWN.new"; mv "$SHOWN.new" "$SHOWN"; }\nsource <(lockd completion zsh)\n`,
    },
  }),
  fish: (folder) => ({
    argv: ["fish", "--no-config", "-i", "-C", `source ${join(folder, "init.fish")}`],
    files: {
      "init.fish": `set -g fish_greeting\nfunction fish_prompt; printf '${PROMPT}'; end\nset -g fish_autosuggestion_enabled 0\nfunction show; printf '%s\\0' $argv > "$SHOWN.new"; mv "$SHOWN.new" "$SHOWN"; end\nlockd completion fish | source\n`,
    },
  }),
};

/** An interactive shell in a folder of its own. */
export class CompletingShell {
  readonly folder: string;
  readonly #shown: string;
  readonly #process: Bun.Subprocess;
  readonly #decoder = new TextDecoder();
  #output = "";

  private constructor(name: ShellName, folder: string, variables: Readonly<Record<string, string>>, first: string) {
    this.folder = folder;
    this.#shown = join(folder, "shown");
    const { argv, files } = START[name](folder);
    const bin = join(folder, "bin");
    mkdirSync(bin, { recursive: true });
    symlinkSync(LOCKD, join(bin, "lockd"));
    for (const [file, text] of Object.entries(files)) writeFileSync(join(folder, file), `${first}\n${text}`);
    this.#process = Bun.spawn([...argv], {
      cwd: folder,
      env: environment({ HOME: folder, ZDOTDIR: folder, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder, TERM: "xterm", LANG: "C.UTF-8", SHOWN: this.#shown, ...variables, PATH: `${bin}:${process.env["PATH"] ?? ""}` }),
      terminal: {
        cols: 200,
        rows: 50,
        data: (_terminal, data) => {
          this.#output += this.#decoder.decode(data, { stream: true });
        },
      },
    });
  }

  /** `first` is a line that stands at the beginning of what the shell reads when it starts. */
  static async start(name: ShellName, folder: string, variables: Readonly<Record<string, string>>, first = ""): Promise<CompletingShell> {
    mkdirSync(folder, { recursive: true });
    const shell = new CompletingShell(name, folder, variables, first);
    await eventually(`${name} shows its prompt`, () => shell.#output.includes(PROMPT));
    return shell;
  }

  /** Presses keys, a line with Tabs in it, and returns the words that the line then has. */
  async wordsAfter(keys: string): Promise<readonly string[]> {
    rmSync(this.#shown, { force: true });
    this.#output = "";
    this.#process.terminal?.write(`${keys}${LINE_START}show \r`);
    await eventually(`the shell shows the words of ${JSON.stringify(keys)}`, () => existsSync(this.#shown));
    return readFileSync(this.#shown, "utf8").split("\0").slice(0, -1);
  }

  async end(): Promise<void> {
    this.#process.kill("SIGKILL");
    await this.#process.exited;
    this.#process.terminal?.close();
  }
}
