import { afterAll, describe, expect, test } from "bun:test";
import { appendFileSync, chmodSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  artifact, finish, install, Place, platform, serveFolder, serveHalf, shells, standIn, startInstall, writeRelease, type Finished, type ReleaseServer, type RunOptions, type Tool,
} from "./kit.ts";

const shared = new Place();
afterAll(() => shared[Symbol.dispose]());
const noise = crypto.getRandomValues(new Uint8Array(60_000));
const good = writeRelease(shared.folder("good"), { [artifact("1.2.3")]: standIn("1.2.3", { padding: noise }) });

/** A copy of a good release, to be spoilt. */
function spoilt(place: Place, spoil: (folder: string) => void): string {
  const folder = writeRelease(place.folder("release"), { [artifact("1.2.3")]: standIn("1.2.3", { padding: noise }) });
  spoil(folder);
  return folder;
}

const sumsOf = (folder: string): string => readFileSync(join(folder, "SHA256SUMS"), "utf8");

/** Runs over nothing and over an installed lockd; both must be left as they were. */
async function refused(place: Place, options: RunOptions): Promise<Finished> {
  const old = join(place.folder("old"), "lockd");
  writeFileSync(old, "the old one");
  const to = (bin: string): Promise<Finished> => install(place, { ...options, args: [...(options.args ?? []), "--bin-dir", bin] });
  const [fresh, over] = await Promise.all([to(join(place.path, "new/bin")), to(join(place.path, "old"))]);
  expect(place.installed(join(place.path, "new"))).toBeNull();
  expect(place.installed(join(place.path, "old"))).toEqual(["lockd"]);
  expect(readFileSync(old, "utf8")).toBe("the old one");
  expect(fresh.stdout + over.stdout).not.toContain("installed");
  expect(fresh.code).toBe(over.code);
  return fresh;
}

for (const shell of shells) {
  for (const downloader of ["curl", "wget"] as const) {
    describe(`under ${shell} with ${downloader}, nothing is installed`, () => {
      const path = (place: Place, without: readonly Tool[] = []): string => place.tools({ without: [downloader === "curl" ? "wget" : "curl", ...without] });
      const from = (place: Place, server: ReleaseServer, more: readonly string[] = []): Promise<Finished> =>
        refused(place, { shell, path: path(place), args: ["--from", server.url, "--timeout", "1", ...more] });

      test("when the checksum is wrong (65)", async () => {
        using place = new Place();
        using server = serveFolder(spoilt(place, (folder) => appendFileSync(join(folder, artifact("1.2.3")), "\0")));
        const { code, stderr } = await from(place, server);
        expect(code).toBe(65);
        expect(stderr).toMatch(/^install\.sh: check lockd-1\.2\.3-[a-z0-9-]+\.gz: its SHA-256 is [0-9a-f]{64}, not [0-9a-f]{64}\n {2}it was damaged or changed on its way; nothing was installed\n$/);
      });

      test("when there are no checksums (66)", async () => {
        using place = new Place();
        using server = serveFolder(spoilt(place, (folder) => rmSync(join(folder, "SHA256SUMS"))));
        const { code, stderr } = await from(place, server);
        expect([code, stderr]).toEqual([66, `install.sh: download ${server.url}/SHA256SUMS: the server has no such file (404)\n  the address must be that of a release folder\n`]);
        expect(server.requests).not.toContain(`/${artifact("1.2.3")}`);
      });

      test("when the artifact is missing (66)", async () => {
        using place = new Place();
        using server = serveFolder(spoilt(place, (folder) => rmSync(join(folder, artifact("1.2.3")))));
        const { code, stderr } = await from(place, server);
        expect([code, stderr]).toEqual([66, expect.stringContaining(`${artifact("1.2.3")}: the server has no such file (404)`)]);
      });

      test("when the server fails (69)", async () => {
        using place = new Place();
        using server = serveFolder(good, (asked) => (asked === "/SHA256SUMS" ? new Response("", { status: 503 }) : null));
        const { code, stderr } = await from(place, server);
        expect([code, stderr]).toEqual([69, expect.stringMatching(/SHA256SUMS: .*503.*\n {2}nothing was installed/)]);
      });

      test("when nobody listens (69)", async () => {
        using place = new Place();
        const server = serveFolder(good);
        server[Symbol.dispose]();
        const { code, stderr } = await from(place, server);
        expect([code, stderr]).toEqual([69, expect.stringMatching(/SHA256SUMS: .*(?:connect|refused).*\n/i)]);
      });

      test("when the connection is cut in the middle (69)", async () => {
        using place = new Place();
        using server = serveHalf(good, "close");
        expect((await from(place, server)).code).toBe(69);
      });

      test("when a page is served in place of the checksums (65)", async () => {
        using place = new Place();
        using server = serveFolder(good, () => new Response("<html>log in first\n<p>0123"));
        const { code, stderr } = await from(place, server);
        expect([code, stderr]).toEqual([65, `install.sh: read ${server.url}/SHA256SUMS: no line of it is a checksum\n  is this the address of a release folder?\n`]);
      });

      for (const [signal, expected] of [["SIGTERM", 143], ["SIGHUP", 129], ["SIGINT", 130]] as const) {
        test(`when ${signal} comes in the middle (${expected}), and the download ends with it`, async () => {
          using place = new Place();
          using server = serveHalf(good, "silence");
          const child = startInstall(place, { shell, path: path(place), args: ["--from", server.url, "--timeout", "600", "--bin-dir", place.bin] });
          await server.halfSent;
          expect(place.installed()).toEqual([expect.stringMatching(/^\.lockd-install\./)]);
          child.kill(signal);
          expect((await finish(child)).code).toBe(expected);
          await server.closed;
          expect(place.installed()).toBeNull();
        });
      }
    });
  }

  describe(`under ${shell}, nothing is installed`, () => {
    const local: readonly (readonly [name: string, spoil: (folder: string) => void, code: number, words: string, more?: readonly string[]])[] = [
      ["when SHA256SUMS does not name this platform (78)", (folder) => writeFileSync(join(folder, "SHA256SUMS"), sumsOf(folder).replace(platform, "plan9-vax")), 78,
        `there is no lockd for ${platform} in`],
      ["when SHA256SUMS has only another version (78)", () => undefined, 78, `there is no lockd 1.2.4 for ${platform} in`, ["--version", "1.2.4"]],
      ["when SHA256SUMS has two versions and none was asked for (64)", (folder) => appendFileSync(join(folder, "SHA256SUMS"), sumsOf(folder).replace("1.2.3", "1.2.4")), 64, "SHA256SUMS has several"],
      ["when the name in SHA256SUMS leads elsewhere (78)", (folder) => writeFileSync(join(folder, "SHA256SUMS"), sumsOf(folder).replace("lockd-1.2.3", "lockd-/../../x")), 78, "there is no lockd"],
      ["when the sum is cut short (65)", (folder) => writeFileSync(join(folder, "SHA256SUMS"), sumsOf(folder).slice(1)), 65, "no line of it is a checksum"],
      ["when the artifact is not there (66)", (folder) => rmSync(join(folder, artifact("1.2.3"))), 66, "there is no such file"],
      ["when there are no checksums (66)", (folder) => rmSync(join(folder, "SHA256SUMS")), 66, "SHA256SUMS: there is none"],
      ["when the sum given is another (65)", () => undefined, 65, `not ${"ab".repeat(32)}`, ["--sha256", "AB".repeat(32)]],
      ["when the artifact is not packed, though its sum is right (65)", (folder) => repack(folder, new TextEncoder().encode("not gzip")), 65, `unpack ${artifact("1.2.3")}: gzip: `],
      ["when it is another program (65)", (folder) => repack(folder, gzip("#!/bin/sh\necho nfs-lockd 7\n")), 65, 'try the new lockd: --version says "nfs-lockd 7"'],
      ["when its workers do not start (65)", (folder) => repack(folder, gzip(standIn("1.2.3", { smokeCode: 3 }))), 65, "lockd __smoke ended with 3: cannot start a worker"],
      ["when it is of another version than it is called (65)", (folder) => repack(folder, gzip(standIn("1.2.4"))), 65, "it is 1.2.4, not 1.2.3", ["--version", "1.2.3"]],
      ["when it dies at start (65)", (folder) => repack(folder, gzip("#!/bin/sh\nkill -4 $$\n")), 65, "lockd --version ended with 132"],
    ];
    for (const [name, spoil, code, words, more] of local) {
      test(name, async () => {
        using place = new Place();
        const result = await refused(place, { shell, args: ["--from", spoilt(place, spoil), ...(more ?? [])] });
        expect(result.stderr).toContain(words);
        expect(result.code).toBe(code);
      });
    }

    test("from a file beside which there are no checksums, or none for it (66)", async () => {
      using place = new Place();
      const lone = await refused(place, { shell, args: ["--from", place.file("lockd", standIn("1.2.3"))] });
      expect([lone.code, lone.stderr]).toEqual([66, expect.stringContaining("nothing is installed without a checksum")]);
      place.file("SHA256SUMS", sumsOf(good));
      const unnamed = await refused(place, { shell, args: ["--from", join(place.path, "lockd")] });
      expect([unnamed.code, unnamed.stderr]).toEqual([66, expect.stringContaining("check lockd: SHA256SUMS does not name it")]);
    });

    test("when a tool is missing (69), which is named", async () => {
      using place = new Place();
      const cases: readonly (readonly [readonly Tool[], string])[] = [
        [["curl", "wget"], "neither curl nor wget is installed"],
        [["gzip"], "find gzip: it is not installed"],
        [["sha256sum", "shasum", "openssl"], "none of sha256sum, shasum and openssl is installed"],
      ];
      for (const [without, words] of cases) {
        const { code, stderr } = await refused(place, { shell, path: place.tools({ without }), args: ["--from", "http://127.0.0.1:9"] });
        expect([code, stderr]).toEqual([69, expect.stringContaining(words)]);
      }
    });

    test("when the command line is wrong (64)", async () => {
      using place = new Place();
      const cases: readonly (readonly string[])[] = [
        ["--form", "x"], ["x"], ["--from"], ["--from="], ["--from", "ftp://x"], ["--timeout", "soon"], ["--timeout", "0"], ["--sha256", "abc"], ["--from-source", "--from", good], [],
        ["--prefix", "/x", "--from", good],
      ];
      for (const args of cases) {
        const { code, stderr } = await refused(place, { shell, args });
        expect([code, stderr]).toEqual([64, expect.stringMatching(/^install\.sh: [a-z]+ [a-z ]+: .+\n/)]);
      }
      const homeless = await install(place, { shell, user: "nobody", env: { HOME: "" }, args: ["--from", good] });
      expect([homeless.code, homeless.stderr]).toEqual([64, expect.stringContaining("HOME is not set")]);
      expect((await refused(place, { shell, args: ["--from", "nowhere"] })).code).toBe(66);
    });
  });

  describe(`under ${shell}, a target`, () => {
    test("that the user may not write to is named, with what to do (73)", async () => {
      using place = new Place();
      mkdirSync(place.bin);
      chmodSync(place.bin, 0o555);
      const there = await install(place, { shell, user: "nobody", args: ["--from", good, "--bin-dir", place.bin] });
      expect([there.code, there.stderr]).toEqual([73, expect.stringMatching(/write to .*\/bin: .*ermission denied.*\n {2}choose another with --bin-dir DIR, or run this as root\n$/)]);
      const below = await install(place, { shell, user: "nobody", args: ["--from", good, "--bin-dir", join(place.bin, "new")] });
      expect([below.code, below.stderr]).toEqual([73, expect.stringContaining("ermission denied")]);
      expect(place.installed()).toEqual([]);
    });

    test("on a read-only file system is named (73), also for --uninstall", async () => {
      using place = new Place();
      mkdirSync(place.bin);
      writeFileSync(join(place.bin, "lockd"), "old");
      const mounts = `mount --bind ${place.bin} ${place.bin}; mount -o remount,bind,ro ${place.bin}`;
      for (const args of [["--from", good], ["--uninstall"]]) {
        const { code, stderr } = await install(place, { shell, mounts, args: [...args, "--bin-dir", place.bin] });
        expect([code, stderr]).toEqual([73, expect.stringContaining("ead-only file system")]);
      }
      expect(place.installed()).toEqual(["lockd"]);
    });

    for (const [what, padding] of [["the download", crypto.getRandomValues(new Uint8Array(65_536))], ["what is unpacked", new Uint8Array(8 << 20)]] as const) {
      for (const source of ["a server, by curl", "a server, by wget", "a folder"] as const) {
        test(`without room for ${what} from ${source} is named (73), and is left empty`, async () => {
          using place = new Place();
          mkdirSync(place.bin);
          // what comes through the pipe is not compressible, and larger than the file system
          const folder = writeRelease(place.folder("release"), { [artifact("1.2.3")]: standIn("1.2.3", { padding: Buffer.concat(Array.from({ length: 40 }, () => padding)).subarray(0, 8 << 20) }) });
          using server = serveFolder(folder);
          const { code, stdout, stderr } = await install(place, {
            shell,
            path: place.tools({ without: source.endsWith("wget") ? ["curl"] : [] }),
            mounts: `mount -t tmpfs -o size=256k none ${place.bin}`,
            args: ["--from", source === "a folder" ? folder : server.url, "--bin-dir", place.bin],
            after: `ls -A ${place.bin}; echo end`,
          });
          expect([code, stderr]).toEqual([73, expect.stringContaining(`no space is left in ${place.bin}\n`)]);
          expect(stdout).toEndWith(`${artifact("1.2.3")} from ${source === "a folder" ? folder : server.url}\nend\n`);
        });
      }
    }

    test("from which nothing may be run is named (73)", async () => {
      using place = new Place();
      mkdirSync(place.bin);
      const { code, stderr } = await install(place, { shell, mounts: `mount -t tmpfs -o noexec none ${place.bin}`, args: ["--from", good, "--bin-dir", place.bin] });
      expect([code, stderr]).toEqual([73, expect.stringContaining("mounted noexec?")]);
    });

    test("that is a directory is left alone (73)", async () => {
      using place = new Place();
      mkdirSync(join(place.bin, "lockd"), { recursive: true });
      for (const args of [["--from", good], ["--uninstall"]]) {
        const { code, stderr } = await install(place, { shell, args: [...args, "--bin-dir", place.bin] });
        expect([code, stderr]).toEqual([73, expect.stringContaining("a directory")]);
      }
      expect(place.installed(join(place.bin, "lockd"))).toEqual([]);
    });
  });
}

// together: curl takes some seconds to believe it
test("when a server falls silent in the middle, nothing is installed (69)", async () => {
  using server = serveHalf(good, "silence");
  const runs = shells.flatMap((shell) => (["curl", "wget"] as const).map((other) => ({ shell, without: [other] })));
  await Promise.all(
    runs.map(async ({ shell, without }) => {
      using place = new Place();
      const { code, stderr } = await refused(place, { shell, path: place.tools({ without }), args: ["--from", server.url, "--timeout", "1"] });
      expect([code, stderr]).toEqual([69, expect.stringMatching(/\.gz: .*(?:too slow|cut or stood still).*\n {2}nothing was installed/)]);
    }),
  );
  await server.halfSent;
});

function gzip(content: string | Uint8Array): Uint8Array {
  return Bun.gzipSync(typeof content === "string" ? new TextEncoder().encode(content) : new Uint8Array(content));
}

/** Another artifact under the same name, with the right sum. */
function repack(folder: string, bytes: Uint8Array): void {
  writeFileSync(join(folder, artifact("1.2.3")), bytes);
  writeFileSync(join(folder, "SHA256SUMS"), `${new Bun.CryptoHasher("sha256").update(bytes).digest("hex")}  ${artifact("1.2.3")}\n`);
}
