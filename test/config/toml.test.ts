import { expect, test } from "bun:test";
import { isTable, keyLine } from "../../src/config/toml.ts";

const text = `# listen = 1
name = "a"
 "listen" = 2

[lock]
listen = 3
'x-y' = 4
[ "sync" ]
listen=5
[[sync.session]]
listen = 6
`;

test("a key is found on its line, in its own section only", () => {
  const places = [["", "name"], ["", "listen"], ["lock", "listen"], ["lock", "x-y"], ["sync", "listen"], ["sync.session", "listen"]] as const;
  expect(places.map(([section, key]) => keyLine(text, section, key))).toEqual([2, 3, 6, 7, 9, 11]);
});

test("a section is found by its header, and what is not there is not", () => {
  expect([keyLine(text, "", "lock"), keyLine(text, "", "sync")]).toEqual([5, 8]);
  expect([keyLine(text, "", "x-y"), keyLine(text, "lock", "name"), keyLine("", "", "a")]).toEqual([null, null, null]);
});

test("a table is neither a list nor a date nor null", () => {
  expect([{}, [], new Date(0), null, 3].map(isTable)).toEqual([true, false, false, false, false]);
});
