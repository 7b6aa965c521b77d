import { describe, expect, test } from "bun:test";
import { lstatSync, mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { artifact, INSTALLER, install, installByPipe, Place, platform, serveFolder, sha256, shells, standIn, writeRelease } from "./kit.ts";

const release = (place: Place, version = "1.2.3"): string =>
  writeRelease(place.folder(`release-${version}`), { [artifact(version)]: standIn(version), [`lockd-${version}-other-cpu.gz`]: standIn(version) });

for (const shell of shells) {
  describe(`under ${shell}`, () => {
    test("a piped install as root goes to /usr/local/bin, which is in PATH, and says three lines at most", async () => {
      using place = new Place();
      using server = serveFolder(release(place));
      const { code, stdout, stderr } = await installByPipe(place, server.url, {
        shell,
        mounts: "mount -t tmpfs none /usr/local",
        path: `${place.tools()}:/usr/local/bin`,
        env: { LOCKD_DOWNLOAD_URL: server.url },
        after: "stat -c '%a %U %n' /usr/local/bin/lockd; ls -A /usr/local/bin; lockd --version; env -u BUN_OPTIONS -u BUN_BE_BUN /usr/local/bin/lockd --version",
      });
      expect([code, stderr]).toEqual([0, ""]);
      const [fetching, ...rest] = stdout.trimEnd().split("\n");
      expect(fetching).toBe(`fetching ${artifact("1.2.3")} from ${server.url}`);
      expect(rest.slice(0, 5)).toEqual(["installed lockd 1.2.3 as /usr/local/bin/lockd", "try it: lockd demo", "755 root /usr/local/bin/lockd", "lockd", "run with variables of bun"]);
      expect(rest.at(-1)).toBe("lockd 1.2.3");
      expect(server.requests).toEqual(["/install.sh", "/SHA256SUMS", `/${artifact("1.2.3")}`]);
    });

    test("a piped install of a user goes to ~/.local/bin, which it says is not in PATH", async () => {
      using place = new Place();
      using server = serveFolder(release(place));
      const { code, stdout, stderr } = await installByPipe(place, server.url, { shell, user: "nobody", env: { LOCKD_DOWNLOAD_URL: `${server.url}/` } });
      const bin = join(place.home, ".local/bin");
      expect([code, stderr]).toEqual([0, ""]);
      expect(stdout.split("\n")).toEqual([
        `fetching ${artifact("1.2.3")} from ${server.url}`,
        `installed lockd 1.2.3 as ${bin}/lockd`,
        `${bin} is not in PATH; to have it there: export PATH="${bin}:$PATH"`,
        `try it: ${bin}/lockd demo`,
        "",
      ]);
      expect(place.installed(bin)).toEqual(["lockd"]);
      expect(statSync(join(bin, "lockd")).uid).toBe(65534);
      expect(readFileSync(join(bin, "lockd"))).toEqual(Buffer.from(standIn("1.2.3")));
    });

    test("wget alone suffices", async () => {
      using place = new Place();
      using server = serveFolder(release(place));
      const path = place.tools({ without: ["curl"] });
      const { code, stderr } = await installByPipe(place, server.url, { shell, path, fetch: "wget -qO-", args: ["--from", server.url, "--bin-dir", place.bin] });
      expect([code, stderr]).toEqual([0, ""]);
      expect(place.installed()).toEqual(["lockd"]);
    });
  });
}

describe("with the shell and the tools of BusyBox alone", () => {
  const run = (place: Place, url: string): Promise<{ code: number; stdout: string; stderr: string }> => {
    const path = place.folder("applets");
    for (const applet of ["cat", "chmod", "cp", "grep", "gzip", "head", "id", "ls", "mkdir", "mktemp", "mv", "rm", "rmdir", "sh", "sha256sum", "sync", "tr", "uname", "wget"]) {
      symlinkSync(Bun.which("busybox") ?? "busybox is not installed", join(path, applet));
    }
    return installByPipe(place, url, { shell: "busybox", path, fetch: "wget -qO-", args: ["--from", url, "--bin-dir", place.bin] });
  };

  test("it is installed", async () => {
    using place = new Place();
    using server = serveFolder(release(place));
    const { code, stderr } = await run(place, server.url);
    expect([code, stderr]).toEqual([0, ""]);
    expect(readFileSync(join(place.bin, "lockd"))).toEqual(Buffer.from(standIn("1.2.3")));
  });

  test("a missing file is told from a server that fails", async () => {
    for (const [status, expected, words] of [[404, 66, "the server has no such file (404)"], [500, 69, "500"]] as const) {
      using place = new Place();
      using server = serveFolder(release(place), (path) => (path.endsWith(".gz") ? new Response("", { status }) : null));
      const { code, stderr } = await run(place, server.url);
      expect([code, stderr]).toEqual([expected, expect.stringContaining(words)]);
      expect(place.installed()).toBeNull();
    }
  });
});

describe("the source may be", () => {
  const sources: readonly (readonly [what: string, from: (folder: string, url: string) => readonly string[]])[] = [
    ["a folder", (folder) => ["--from", folder]],
    ["a folder with a slash", (folder) => [`--from=${folder}//`]],
    ["a packed file", (folder) => ["--from", join(folder, artifact("1.2.3"))]],
    ["a file URL", (folder) => ["--from", `file://${folder}`]],
    ["the address of a folder", (_, url) => ["--from", url]],
    ["the address of a packed file", (_, url) => ["--from", `${url}/${artifact("1.2.3")}`]],
    ["a folder of two versions, one of them named", (folder) => ["--from", folder, "--version", "v1.2.3"]],
  ];
  for (const [what, from] of sources) {
    test(what, async () => {
      using place = new Place();
      const folder = release(place);
      if (what.includes("two versions")) writeRelease(folder, { [artifact("1.2.3")]: standIn("1.2.3"), [artifact("1.10.0")]: standIn("1.10.0") });
      using server = serveFolder(folder);
      const { code, stderr } = await install(place, { args: [...from(folder, server.url), "--bin-dir", place.bin], env: { LOCKD_DOWNLOAD_URL: "http://127.0.0.1:9/" } });
      expect([code, stderr]).toEqual([0, ""]);
      expect(readFileSync(join(place.bin, "lockd"))).toEqual(Buffer.from(standIn("1.2.3")));
    });
  }

  test("an unpacked file of any name with its sum given, in a relative path", async () => {
    using place = new Place();
    place.file("version", standIn("1.2.3"));
    const { code, stderr } = await install(place, {
      cwd: place.path,
      args: ["--from", "version", "--sha256", sha256(standIn("1.2.3")).toUpperCase(), "--bin-dir", "./bin"],
    });
    expect([code, stderr]).toEqual([0, ""]);
    expect(place.installed()).toEqual(["lockd"]);
  });
});

describe("a checkout", () => {
  const checkout = (place: Place, build: string): string => {
    const folder = place.folder("checkout");
    writeFileSync(join(folder, "package.json"), JSON.stringify({ name: "lockd", private: true, scripts: { build } }, null, 2));
    writeFileSync(join(folder, "built"), standIn("9.9.9"));
    writeFileSync(join(folder, "install.sh"), readFileSync(INSTALLER));
    return folder;
  };

  test("is built and installed from", async () => {
    using place = new Place();
    const folder = checkout(place, "mkdir -p dist && cp built dist/lockd");
    const { code, stdout, stderr } = await install(place, { installer: join(folder, "install.sh"), args: ["--from-source", "--bin-dir", place.bin], env: { npm_config_cache: join(place.path, "npm") }, path: `${place.tools()}:/bin` });
    expect([code, stderr]).toEqual([0, ""]);
    expect(stdout).toStartWith(`building lockd in ${folder}\ninstalled lockd 9.9.9 as ${place.bin}/lockd\n`);
    expect(place.installed()).toEqual(["lockd"]);
  });

  test("that does not build is shown with what the build said, and nothing is installed", async () => {
    using place = new Place();
    const folder = checkout(place, "echo the compiler is unhappy; exit 3");
    const { code, stderr } = await install(place, { installer: join(folder, "install.sh"), args: ["--from-source", "--bin-dir", place.bin], env: { npm_config_cache: join(place.path, "npm") }, path: `${place.tools()}:/bin` });
    expect(code).toBe(1);
    expect(stderr).toContain("the compiler is unhappy");
    expect(stderr).toContain("install.sh: build lockd: npm run failed, see above");
    expect(place.installed()).toBeNull();
  });

  test("needs a Node.js that is not too old, and must be one", async () => {
    using place = new Place();
    const folder = checkout(place, "exit 3");
    const old = await install(place, { installer: join(folder, "install.sh"), args: ["--from-source", "--bin-dir", place.bin], path: place.tools({ stubs: { node: "echo v18.19.1" } }) });
    expect([old.code, old.stderr]).toEqual([69, "install.sh: build lockd: Node.js is v18.19.1\n  version 20 or newer is needed\n"]);
    const none = await install(place, { installer: join(folder, "install.sh"), args: ["--from-source", "--bin-dir", place.bin], path: place.tools({ without: ["node"] }) });
    expect([none.code, none.stderr]).toEqual([69, expect.stringContaining("find node: it is not installed")]);
    const elsewhere = await install(place, { installer: place.file("install.sh", readFileSync(INSTALLER)), args: ["--from-source", "--bin-dir", place.bin] });
    expect([elsewhere.code, elsewhere.stderr]).toEqual([66, expect.stringContaining("is not a checkout of it")]);
    expect(place.installed()).toBeNull();
  });
});

describe("what is there already", () => {
  test("is replaced, and the user is told that running processes keep it", async () => {
    using place = new Place();
    for (const version of ["1.0.0", "1.0.1"]) {
      const { code, stdout } = await install(place, { args: ["--from", release(place, version), "--prefix", place.path] });
      expect(code).toBe(0);
      expect(stdout.includes("what runs keeps the old version until it is started again")).toBe(version === "1.0.1");
      expect(readFileSync(join(place.bin, "lockd"))).toEqual(Buffer.from(standIn(version)));
    }
    expect(place.installed()).toEqual(["lockd"]);
  });

  test("when it is a link is replaced itself, not what it points to", async () => {
    using place = new Place();
    mkdirSync(place.bin);
    const other = place.file("other", "precious");
    symlinkSync(other, join(place.bin, "lockd"));
    expect((await install(place, { args: ["--from", release(place), "--bin-dir", place.bin] })).code).toBe(0);
    expect(readFileSync(other, "utf8")).toBe("precious");
    expect(lstatSync(join(place.bin, "lockd")).isSymbolicLink()).toBe(false);
  });

  test("under the same name earlier in PATH is pointed out", async () => {
    using place = new Place();
    const path = `${place.tools({ stubs: { lockd: "exit 0" } })}:${place.bin}`;
    const { code, stdout } = await install(place, { path, args: ["--from", release(place), "--bin-dir", place.bin] });
    expect(code).toBe(0);
    expect(stdout).toContain(`but PATH finds ${path.split(":")[0]}/lockd first; try it: ${place.bin}/lockd demo`);
  });

  test("is removed by --uninstall alone, and is not found a second time", async () => {
    using place = new Place();
    const bin = place.folder("a bin");
    place.file("a bin/neighbour", "x");
    expect((await install(place, { args: ["--from", release(place), "--bin-dir", bin] })).code).toBe(0);
    const tried = await install(place, { args: ["--uninstall", "--dry-run", "--bin-dir", bin] });
    expect([tried.code, tried.stdout]).toEqual([0, `would remove ${bin}/lockd\n`]);
    expect(place.installed(bin)).toEqual(["lockd", "neighbour"]);
    const done = await install(place, { args: ["--uninstall", "--bin-dir", bin] });
    expect([done.code, done.stdout]).toEqual([0, `removed ${bin}/lockd; configuration and data were left alone\n`]);
    expect(place.installed(bin)).toEqual(["neighbour"]);
    const again = await install(place, { args: ["--uninstall", "--bin-dir", bin] });
    expect([again.code, again.stderr]).toEqual([66, expect.stringContaining(`there is no ${bin}/lockd`)]);
  });
});

test("what it makes can be used by everybody, whatever the umask", async () => {
  using place = new Place();
  const bin = join(place.path, "opt/lockd/bin");
  const { code } = await install(place, { mounts: "umask 077", args: ["--from", release(place), "--bin-dir", bin] });
  expect(code).toBe(0);
  const modes = ["opt", "opt/lockd", "opt/lockd/bin", "opt/lockd/bin/lockd"].map((name) => (statSync(join(place.path, name)).mode & 0o7777).toString(8));
  expect(modes).toEqual(["755", "755", "755", "755"]);
});

test("a dry run says what it would do, and leaves no trace", async () => {
  using place = new Place();
  const folder = release(place);
  using server = serveFolder(folder);
  const { code, stdout, stderr } = await install(place, { args: ["--dry-run", "--from", server.url, "--bin-dir", join(place.bin, "deep")] });
  expect([code, stderr]).toEqual([0, ""]);
  expect(stdout).toBe(
    `would fetch ${artifact("1.2.3")} from ${server.url}\nwould check that its SHA-256 is ${sha256(readFileSync(join(folder, artifact("1.2.3"))))}\nwould install it as ${place.bin}/deep/lockd\n`,
  );
  expect(server.requests).toEqual(["/SHA256SUMS"]);
  expect(place.installed()).toBeNull();
  expect(place.installed(place.folder("tmp"))).toEqual([]);
});

test("a password in the address is used and not shown", async () => {
  using place = new Place();
  using server = serveFolder(release(place));
  const url = server.url.replace("//", "//ann:secret@");
  const good = await install(place, { args: ["--from", url, "--bin-dir", place.bin] });
  expect(good.code).toBe(0);
  const bad = await install(place, { args: ["--from", `${url}/nowhere`, "--bin-dir", place.bin] });
  expect(bad.code).toBe(66);
  expect(bad.stderr).toContain(`${server.url}/nowhere/SHA256SUMS`);
  expect(good.stdout + good.stderr + bad.stdout + bad.stderr).not.toContain("secret");
});

test("help names every option, and exits 0 wherever it stands", async () => {
  using place = new Place();
  const { code, stdout, stderr } = await install(place, { args: ["--from", "nowhere", "--help"] });
  expect([code, stderr]).toEqual([0, ""]);
  const known = [...readFileSync(INSTALLER, "utf8").matchAll(/^ +(--[^)\n]*)\)/gm)].flatMap((match) => [...(match[1] ?? "").matchAll(/--[a-z0-9-]+/g)].map(String));
  expect(new Set(known).size).toBeGreaterThan(9);
  for (const option of known) expect(stdout).toContain(option);
});

test(`the three programs for sums are as good as each other, on ${platform}`, async () => {
  for (const without of [[], ["sha256sum"], ["sha256sum", "shasum"]] as const) {
    using place = new Place();
    const folder = release(place);
    const run = (): Promise<{ code: number; stderr: string }> => install(place, { path: place.tools({ without }), args: ["--from", folder, "--bin-dir", place.bin] });
    const good = await run();
    expect([good.code, good.stderr]).toEqual([0, ""]);
    writeFileSync(join(folder, artifact("1.2.3")), "changed");
    expect((await run()).code).toBe(65);
  }
});
