import { afterAll, beforeAll, expect, test } from "bun:test";
import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { distrust, distrustOf } from "../../src/plugin/trust.ts";

const own = process.getuid?.() ?? 0;
/** a user who is not root: this one, or one that root may give files to */
const somebody = own === 0 ? 4711 : own;
let directory = "";
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), "lockd-trust-"));
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

const entry = (uid: number, mode: number, kind: "file" | "folder" | "link" = "file") => ({
  uid,
  mode,
  isDirectory: () => kind === "folder",
  isSymbolicLink: () => kind === "link",
});

test("root and the user may own it, nobody else", () => {
  expect(distrustOf("/p", entry(0, 0o644), 1000)).toBeNull();
  expect(distrustOf("/p", entry(1000, 0o644), 1000)).toBeNull();
  expect(distrustOf("/p", entry(1001, 0o644), 1000)).toBe("/p belongs to user 1001, who is neither root nor the user that runs lockd");
  expect(distrustOf("/p", entry(1000, 0o644), 0)).toContain("belongs to user 1000");
  expect(distrustOf("/p", entry(1001, 0o777, "link"), 1000)).toContain("belongs to user 1001");
});

test("only the owner may write to it; in a folder such as /tmp others may create", () => {
  for (const mode of [0o664, 0o646, 0o602, 0o620]) expect(distrustOf("/p", entry(0, mode), 0)).toBe("/p can be written by others than its owner");
  for (const mode of [0o644, 0o755, 0o600]) expect(distrustOf("/p", entry(0, mode), 0)).toBeNull();
  expect(distrustOf("/p", entry(0, 0o777, "folder"), 0)).toContain("can be written");
  expect(distrustOf("/p", entry(0, 0o1777, "folder"), 0)).toBeNull();
  expect(distrustOf("/p", entry(0, 0o1666, "file"), 0)).toContain("can be written");
  expect(distrustOf("/p", entry(0, 0o777, "link"), 0)).toBeNull();
});

test("files and folders on a real disk are judged for the user who asks", () => {
  const folder = join(directory, "a");
  const file = join(folder, "x.ts");
  mkdirSync(folder, { mode: 0o755 });
  writeFileSync(file, "", { mode: 0o644 });
  for (const path of [directory, folder, file]) chownSync(path, somebody, process.getgid?.() ?? 0);
  expect(distrust(file, somebody)).toBeNull();
  expect(distrust(file, somebody + 1)).toContain(`belongs to user ${somebody}`);
  chmodSync(folder, 0o775);
  expect(distrust(file, somebody)).toBe(`${folder} can be written by others than its owner`);
  chmodSync(folder, 0o755);
  chmodSync(file, 0o660);
  expect(distrust(file, somebody)).toBe(`${file} can be written by others than its owner`);
});

test("every link on the way is judged with what is above it, and a circle of them ends", () => {
  const open = join(directory, "open");
  mkdirSync(open);
  chmodSync(open, 0o777);
  mkdirSync(join(directory, "closed"), { mode: 0o755 });
  writeFileSync(join(directory, "closed/x.ts"), "", { mode: 0o644 });
  // whoever may write to the folder may let the link lead elsewhere
  symlinkSync("../closed", join(open, "link"));
  symlinkSync("closed/x.ts", join(directory, "good"));
  symlinkSync("circle", join(directory, "circle"));
  expect(distrust(join(open, "link", "x.ts"), somebody)).toBe(`${open} can be written by others than its owner`);
  expect(distrust(join(directory, "good"), somebody)).toBeNull();
  expect(distrust(join(directory, "circle"), somebody)).toContain("too many symbolic links");
});
