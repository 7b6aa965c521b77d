import { describe, expect, test } from "bun:test";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { checkExecutable, checkIntegrity, installerText, lockedPackage, platforms, sumsText, type Platform } from "../../scripts/release-parts.ts";
import { artifact, install, installByPipe, INSTALLER, Place, serveFolder, standIn, writeRelease } from "./kit.ts";

const root = resolve(import.meta.dir, "../..");
const read = (name: string): string => readFileSync(join(root, name), "utf8");

function platformOf(name: string): Platform {
  const found = platforms.find((one) => one.name === name);
  if (found === undefined) throw new Error(`no platform ${name}`);
  return found;
}

describe("the runtime of a platform", () => {
  for (const { name, runtimePackage } of platforms) {
    test(`for ${name} is in the lock file, in the version that builds`, () => {
      const { version, integrity } = lockedPackage(JSON.parse(read("package-lock.json")), runtimePackage);
      expect(version).toBe(Bun.version);
      expect(integrity).toMatch(/^sha512-[A-Za-z0-9+/]{86}==$/);
    });
  }

  test("that the lock file does not know, or knows without a sum, is an error", () => {
    for (const lock of [null, {}, { packages: {} }, { packages: { "node_modules/@oven/bun-linux-x64": { version: "1.0.0" } } }]) {
      expect(() => lockedPackage(lock, "@oven/bun-linux-x64")).toThrow("is not in it with version and integrity");
    }
  });

  test("passes with the sum of the lock file and with no other", () => {
    const bytes = new TextEncoder().encode("abc");
    const sum = "sha512-3a81oZNherrMQXNJriBBMRLm+k6JqX6iCp7u5ktV05ohkpkqJ0/BqDa6PCOj/uu9RU1EI2Q86A4qmslPpUyknw==";
    expect(() => checkIntegrity("x", bytes, sum)).not.toThrow();
    expect(() => checkIntegrity("x", new TextEncoder().encode("abd"), sum)).toThrow("package-lock.json demands 3a81o");
    expect(() => checkIntegrity("x", bytes, "sha1-qZk+NkcGgWq6PiVxeFDCbJzQ2J0=")).toThrow("not sha512");
    expect(() => checkIntegrity("x", bytes, "")).toThrow("no sum");
  });

  test("with another sum ends the release, which leaves no folder behind", async () => {
    using place = new Place();
    const before = listReleases();
    const path = place.tools({ stubs: { npm: 'while [ $# -gt 1 ]; do shift; done; echo changed >"$1/runtime.tgz"' } });
    const release = Bun.spawn([process.execPath, "scripts/release.ts"], { cwd: root, env: { PATH: path, HOME: place.home }, stdout: "pipe", stderr: "pipe" });
    const [code, stderr] = await Promise.all([release.exited, new Response(release.stderr).text()]);
    expect(stderr).toContain("package-lock.json demands");
    expect(code).not.toBe(0);
    expect(listReleases()).toEqual(before);
  });
});

describe("a built executable", () => {
  test("is accepted for its own platform and refused for the other, as is anything else", () => {
    const header = readFileSync(process.execPath).subarray(0, 64);
    const own = platformOf(`linux-${process.arch}`);
    const other = platformOf(process.arch === "x64" ? "linux-arm64" : "linux-x64");
    expect(() => checkExecutable(header, own)).not.toThrow();
    expect(() => checkExecutable(header, other)).toThrow(`its machine is ${own.elfMachine}, not ${other.elfMachine}`);
    expect(() => checkExecutable(header.subarray(0, 63), own)).toThrow("no ELF file");
    expect(() => checkExecutable(new Uint8Array(100), own)).toThrow("no ELF file");
    const wide = new Uint8Array(header);
    wide[4] = 1;
    expect(() => checkExecutable(wide, own)).toThrow("not 64-bit little-endian");
  });
});

describe("a release folder", () => {
  test("has sums that sha256sum accepts, and refuses after one changed byte", () => {
    using place = new Place();
    const files = new Map([["b", new TextEncoder().encode("two")], ["a", new TextEncoder().encode("one")]]);
    for (const [name, bytes] of files) place.file(name, bytes);
    place.file("SHA256SUMS", sumsText(files));
    const check = (): number => Bun.spawnSync(["sha256sum", "--strict", "-c", "SHA256SUMS"], { cwd: place.path }).exitCode;
    expect(check()).toBe(0);
    writeFileSync(join(place.path, "b"), "twO");
    expect(check()).toBe(1);
  });

  test("whose install.sh was given the address needs no variable to be installed from", async () => {
    using place = new Place();
    const folder = writeRelease(place.folder("release"), { [artifact("1.2.3")]: standIn("1.2.3") });
    using server = serveFolder(folder);
    writeFileSync(join(folder, "install.sh"), installerText(read("install.sh"), server.url));
    const { code, stdout, stderr } = await installByPipe(place, server.url, { args: ["--bin-dir", place.bin] });
    expect([code, stderr]).toEqual([0, ""]);
    expect(stdout).toContain(`installed lockd 1.2.3 as ${place.bin}/lockd`);
  });

  test("takes no address that could be more than an address", () => {
    for (const url of ["http://x/';reboot;'", "ftp://x", "http://x/$(id)", "http://x/a b", "x", ""]) {
      expect(() => installerText(read("install.sh"), url)).toThrow("is not a plain http or https address");
    }
    expect(() => installerText("#!/bin/sh\n", "http://x")).toThrow("no line release_url=");
    expect(installerText("#!/bin/sh\n", null)).toBe("#!/bin/sh\n");
  });

  test("installs by its own install.sh without being named, and one from elsewhere does not guess", async () => {
    using place = new Place();
    const folder = writeRelease(place.folder("release"), { [artifact("1.2.3")]: standIn("1.2.3") });
    const own = await install(place, { installer: join(folder, "install.sh"), args: ["--bin-dir", place.bin] });
    expect([own.code, own.stderr]).toEqual([0, ""]);
    const relative = await install(place, { installer: "install.sh", cwd: folder, args: ["--bin-dir", place.bin] });
    expect([relative.code, relative.stderr]).toEqual([0, ""]);
    const elsewhere = await install(place, { installer: place.file("install.sh", read("install.sh")), args: ["--bin-dir", place.bin] });
    expect([elsewhere.code, elsewhere.stderr]).toEqual([64, expect.stringContaining("LOCKD_DOWNLOAD_URL")]);
  });
});

test("install.sh has nothing that shellcheck objects to", () => {
  const result = Bun.spawnSync(["shellcheck", "--shell=sh", "--enable=quote-safe-variables,check-unassigned-uppercase", INSTALLER]);
  expect(result.stdout.toString()).toBe("");
  expect(result.exitCode).toBe(0);
});

/** The releases there are, without those that another run is making just now. */
function listReleases(): string[] {
  try {
    return readdirSync(join(root, "dist/release")).sort();
  } catch {
    return [];
  }
}
