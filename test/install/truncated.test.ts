import { expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { artifact, feed, INSTALLER, Place, shells, standIn, writeRelease } from "./kit.ts";

const script = readFileSync(INSTALLER);
const text = script.toString();

/** Every offset of the first and the last lines, both sides of every line's end, and some in between. */
function offsets(): number[] {
  const chosen = new Set<number>();
  for (let offset = 0; offset < script.length; offset += 1) {
    const edge = offset < 20 || offset > script.length - 60;
    const line = script[offset] === 0x0a || script[offset - 1] === 0x0a;
    if (edge || line || offset % 61 === 0) chosen.add(offset);
  }
  // the last newline is not needed
  chosen.delete(script.length - 1);
  return [...chosen];
}

test("the script begins nothing before its last line, which is one call", () => {
  expect(text).toEndWith('\n\nmain "$@"; }\n');
  const lines = text.replace(/<<'END'\n[^]*?\nEND\n/, "\n").split("\n");
  const outside = lines.filter((line) => /^[^\s#}]/.test(line) && !/^[a-z_]+\(\) \{$/.test(line));
  expect(outside).toEqual(["{", "set -u", 'main "$@"; }']);
});

for (const shell of shells) {
  test(`any part of the script makes ${shell} do nothing at all`, () => {
    using place = new Place();
    const release = writeRelease(place.folder("release"), { [artifact("1.2.3")]: standIn("1.2.3") });
    const trace = join(place.path, "trace");
    // whatever it may call leaves a line; builtins have no effect but on the shell itself
    const note = `echo "$0 $*" >>'${trace}'`;
    const names = ["cat", "chmod", "cp", "curl", "getconf", "grep", "gzip", "head", "id", "ldd", "ls", "mkdir", "mktemp", "mv", "rm", "tr", "uname", "usage", "wget"] as const;
    const path = place.tools({ stubs: Object.fromEntries(names.map((name) => [name, note])) });
    const home = place.folder("empty");
    const environment = { PATH: path, HOME: home, LOCKD_DOWNLOAD_URL: release };
    const tried = offsets();
    expect(tried.length).toBeGreaterThan(800);
    for (const offset of tried) {
      const { stdout } = feed(shell, script.subarray(0, offset), environment, home);
      if (stdout !== "" || existsSync(trace)) throw new Error(`${offset} bytes of install.sh did something: ${stdout} ${existsSync(trace) ? readFileSync(trace, "utf8") : ""}`);
    }
    expect(place.installed(home)).toEqual([]);
    // the whole of it does leave a trace, with and without its last newline
    for (const whole of [script, script.subarray(0, -1)]) {
      feed(shell, whole, environment, home);
      expect(readFileSync(trace, "utf8")).toContain("/uname -s");
    }
  });

  test(`${shell} ends with an error when the script was cut anywhere after its first comment`, () => {
    using place = new Place();
    const start = text.indexOf("\n{\n") + 2;
    for (let offset = start; offset < script.length - 1; offset += 509) {
      expect(feed(shell, script.subarray(0, offset), { PATH: "/nowhere" }, place.home).code).not.toBe(0);
    }
    expect(feed(shell, script.subarray(0, script.length - 2), { PATH: "/nowhere" }, place.home).code).not.toBe(0);
  });
}
