import { expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";

const folder = fileURLToPath(new URL("../../bench/", import.meta.url));
const names = readdirSync(folder).filter((file) => file.endsWith(".ts") && file !== "run.ts").map((file) => file.slice(0, -3));

const run = (...argv: readonly string[]) => {
  const { exitCode, stdout, stderr } = Bun.spawnSync([process.execPath, `${folder}run.ts`, ...argv], { stdin: "ignore" });
  return { exitCode, stdout: stdout.toString(), stderr: stderr.toString() };
};

test("without a name every benchmark is listed with what it measures", () => {
  const { exitCode, stdout } = run();
  expect(exitCode).toBe(0);
  expect(names).toContain("startup");
  for (const name of names) expect(stdout).toMatch(new RegExp(`^${name} +\\S+ \\S+`, "m"));
});

test("an unknown name is refused before anything runs, and those that exist are named", () => {
  const { exitCode, stdout, stderr } = run("startup", "no-such-bench");
  expect(exitCode).toBe(64);
  expect(stdout).toBe("");
  expect(stderr).toContain("no benchmark no-such-bench");
  expect(stderr).toContain("startup");
});

test("a flag that a benchmark does not know is refused by it, with those that it knows", () => {
  const { exitCode, stderr } = run("startup", "--no-such-flag", "1");
  expect(exitCode).toBe(64);
  expect(stderr).toContain("startup: read --no-such-flag: unknown flag");
  expect(stderr).toContain("--rounds 5");
});
