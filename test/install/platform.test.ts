import { describe, expect, test } from "bun:test";
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { install, Place, shells, standIn, writeRelease, type Finished, type Shell } from "./kit.ts";

interface Machine {
  uname: readonly [system: string, machine: string];
  /** what `getconf GNU_LIBC_VERSION` prints; nothing where it fails */
  glibc?: string;
  ldd?: string;
  bits?: number;
  /** platforms that the release has, besides linux-x64 and linux-arm64 */
  more?: readonly string[];
}

/** Installs on a machine that its tools describe; each artifact is a program that knows its platform. */
async function on(place: Place, shell: Shell, machine: Machine): Promise<Finished> {
  const [system, processor] = machine.uname;
  const platforms = ["linux-x64", "linux-arm64", ...(machine.more ?? [])];
  const folder = writeRelease(
    place.folder("release"),
    Object.fromEntries(platforms.map((name) => [`lockd-1.2.3-${name}.gz`, standIn("1.2.3", { padding: new TextEncoder().encode(`# ${name}\n`) })])),
  );
  const path = place.tools({
    stubs: {
      uname: `[ "$1" = -s ] && echo '${system}' || echo '${processor}'`,
      getconf: `case $1 in LONG_BIT) echo ${machine.bits ?? 64} ;; *) ${machine.glibc === undefined ? "exit 1" : `echo '${machine.glibc}'`} ;; esac`,
      ldd: machine.ldd === undefined ? "exit 1" : `echo '${machine.ldd}' >&2; exit 1`,
    },
  });
  return install(place, { shell, path, args: ["--from", folder, "--bin-dir", place.bin] });
}

for (const shell of shells) {
  describe(`under ${shell}`, () => {
    const fitting: readonly (readonly [what: string, machine: Machine, platform: string])[] = [
      ["Linux on x86_64", { uname: ["Linux", "x86_64"], glibc: "glibc 2.36" }, "linux-x64"],
      ["Linux on aarch64", { uname: ["Linux", "aarch64"], glibc: "glibc 2.17" }, "linux-arm64"],
      ["a glibc that only ldd tells of", { uname: ["Linux", "aarch64"], ldd: "ldd (GNU libc) 2.17" }, "linux-arm64"],
      ["a libc that nothing tells of, left to the trial run", { uname: ["Linux", "aarch64"] }, "linux-arm64"],
      ["a glibc of a far future", { uname: ["Linux", "arm64"], glibc: "glibc 3.0" }, "linux-arm64"],
      ["musl, for a release that has it", { uname: ["Linux", "x86_64"], ldd: "musl libc (x86_64)", more: ["linux-x64-musl"] }, "linux-x64-musl"],
      ["macOS, for a release that has it", { uname: ["Darwin", "arm64"], more: ["darwin-arm64"] }, "darwin-arm64"],
    ];
    for (const [what, machine, platform] of fitting) {
      test(`${what} gets ${platform}`, async () => {
        using place = new Place();
        const { code, stderr } = await on(place, shell, machine);
        expect([code, stderr]).toEqual([0, ""]);
        expect(readFileSync(join(place.bin, "lockd"), "utf8")).toEndWith(`# ${platform}\n`);
      });
    }

    const others: readonly (readonly [what: string, machine: Machine, words: string])[] = [
      ["musl", { uname: ["Linux", "aarch64"], ldd: "musl libc (aarch64)" }, "there is no lockd for linux-arm64-musl in"],
      ["macOS", { uname: ["Darwin", "x86_64"] }, "there is no lockd for darwin-x64 in"],
      ["another processor", { uname: ["Linux", "riscv64"], glibc: "glibc 2.40" }, "there is no lockd for linux-riscv64 in"],
      ["another system", { uname: ["MINGW64_NT-10.0", "x86_64"] }, "there is no lockd for mingw64_nt-10.0-x64 in"],
      ["glibc 2.16", { uname: ["Linux", "x86_64"], glibc: "glibc 2.16" }, "this system has glibc 2.16\n  lockd needs glibc 2.17 or newer"],
      ["glibc 2.12 by ldd", { uname: ["Linux", "x86_64"], ldd: "ldd (GNU libc) 2.12" }, "this system has glibc 2.12\n"],
      ["a 32-bit system on a 64-bit kernel", { uname: ["Linux", "aarch64"], glibc: "glibc 2.36", bits: 32 }, "this is a 32-bit system on aarch64\n"],
    ];
    for (const [what, machine, words] of others) {
      test(`${what} is refused before anything is written (78)`, async () => {
        using place = new Place();
        const { code, stdout, stderr } = await on(place, shell, machine);
        expect(stderr).toContain(words);
        if (words.includes("there is no")) expect(stderr).toContain("\n  it has: lockd-1.2.3-linux-x64 lockd-1.2.3-linux-arm64\n");
        expect([code, stdout]).toEqual([78, ""]);
        expect(place.installed()).toBeNull();
      });
    }

    test("a processor without SSE4.2 is refused (78)", async () => {
      using place = new Place();
      const folder = writeRelease(place.folder("release"), { "lockd-1.2.3-linux-x64.gz": standIn("1.2.3") });
      mkdirSync(place.bin);
      const run = (flags: string): Promise<Finished> => {
        const cpu = place.file("cpuinfo", `processor\t: 0\nflags\t\t: fpu ${flags} sse4_1\n`);
        const stubs = { uname: '[ "$1" = -s ] && echo Linux || echo x86_64' };
        return install(place, { shell, path: place.tools({ stubs }), mounts: `mount --bind ${cpu} /proc/cpuinfo`, args: ["--from", folder, "--bin-dir", place.bin] });
      };
      const without = await run("sse3");
      expect([without.code, without.stderr]).toEqual([78, expect.stringContaining("this CPU has no SSE4.2")]);
      expect(place.installed()).toEqual([]);
      expect((await run("sse4_2")).code).toBe(0);
    });
  });
}
