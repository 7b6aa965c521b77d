/**
 * A wall clock that jumps, for one process, while it runs: libfaketime in a process reads the offset
 * from a file at every look. Monotonic and boot-time clocks stay true, as they do when an administrator
 * or NTP sets the time.
 */
import { renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { directory, run } from "./world.ts";

export class WallClock {
  readonly #file: string;
  /** for the environment of the process */
  readonly env: Readonly<Record<string, string>>;

  constructor() {
    this.#file = join(directory("clock"), "offset");
    this.jumpTo("+0");
    this.env = {
      // the wrapper knows where its library lies on this system
      LD_PRELOAD: run("faketime", "-f", "+0", "printenv", "LD_PRELOAD").trim(),
      FAKETIME_TIMESTAMP_FILE: this.#file,
      FAKETIME_NO_CACHE: "1",
      FAKETIME_DONT_FAKE_MONOTONIC: "1",
      DONT_FAKE_MONOTONIC: "1",
    };
  }

  /** Sets the clock to an offset from the true time: `+1h`, `-1y`, `+0`. */
  jumpTo(offset: string): void {
    // by rename, so that no process reads half a line
    writeFileSync(`${this.#file}.new`, `${offset}\n`);
    renameSync(`${this.#file}.new`, this.#file);
  }
}
