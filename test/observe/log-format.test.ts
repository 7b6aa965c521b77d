import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { formatJson, formatText, isSecretField, type LogLine } from "../../src/observe/log-format.ts";

const line = (msg: string, fields: LogLine["fields"] = {}, level: LogLine["level"] = "info"): LogLine => ({
  date: new Date(Date.UTC(2024, 1, 3, 4, 5, 6, 78)),
  level,
  msg,
  fields,
});

describe("a JSON line", () => {
  test("has time, level and msg first, then the fields in their order", () => {
    expect(formatJson(line("ready", { name: "a", pid: 7, http: null, ok: true, none: undefined }))).toBe(
      '{"time":"2024-02-03T04:05:06.078Z","level":"info","msg":"ready","name":"a","pid":7,"http":null,"ok":true}\n',
    );
  });

  test("keeps its own time, level and msg whatever the fields are called", () => {
    const parsed: unknown = JSON.parse(formatJson(line("ready", { time: "never", level: "silent", msg: "forged" })));
    expect(parsed).toMatchObject({ level: "info", msg: "ready", _time: "never", _level: "silent", _msg: "forged" });
  });

  test("says what numbers JSON has no word for", () => {
    expect(formatJson(line("x", { a: Number.NaN, b: Number.NEGATIVE_INFINITY }))).toContain('"a":"NaN","b":"-Infinity"');
  });

  test("keeps a field named __proto__ as a field", () => {
    const fields: unknown = JSON.parse('{"__proto__":"x"}');
    expect(formatJson(line("x", { ...(fields as LogLine["fields"]) }))).toContain('"__proto__":"x"');
  });

  test("is one line of plain characters and parses back to the value, for any text", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), fc.string({ unit: "binary" }), (msg, value) => {
        const text = formatJson(line(msg, { value }));
        expect(text).toMatch(/^[^\p{Cc}\u2028\u2029]*\n$/u);
        expect(JSON.parse(text)).toMatchObject({ msg, value });
      }),
    );
  });
});

describe("a text line", () => {
  test("has time, level, msg and fields in columns", () => {
    expect(formatText(line("ready", { name: "a", pid: 7, none: undefined }), "plain")).toBe(
      "2024-02-03T04:05:06.078Z INFO  ready                  name=a pid=7\n",
    );
    expect(formatText(line("stopped", {}, "error"), "plain")).toBe("2024-02-03T04:05:06.078Z ERROR stopped\n");
  });

  test("quotes what would blur with the next field", () => {
    const text = formatText(line("x", { a: "two words", b: 'say "hi"', c: "", d: "k=v", e: "back\\slash", f: "C:d" }), "plain");
    expect(text).toEndWith(' a="two words" b="say \\"hi\\"" c="" d="k=v" e="back\\\\slash" f=C:d\n');
  });

  test("escapes what could forge a line, move the cursor or turn text around", () => {
    const text = formatText(line("x\n2024 INFO forged", { a: "\u001b[2J\r\n\u0000\u009b", "b\n": "\u202eevil", c: "\u2028" }), "plain");
    expect(text).toBe(
      '2024-02-03T04:05:06.078Z INFO  x\\n2024 INFO forged    a="\\u{1b}[2J\\r\\n\\u{0}\\u{9b}" b\\n="\\u{202e}evil" c="\\u{2028}"\n',
    );
  });

  test("is one line without controls for any text", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), fc.string({ unit: "binary" }), (msg, value) => {
        expect(formatText(line(msg, { [msg]: value, stack: "" }), "plain")).toMatch(/^[^\p{Cc}\u2028\u2029\u202e]*\n *\n$/u);
      }),
    );
  });

  test("shows a stack as indented lines of its own", () => {
    const text = formatText(line("uncaught", { stack: "Error: a\n    at f (x.ts:1)\n2024 INFO forged", error: "a" }), "plain");
    expect(text.split("\n")).toEqual([
      "2024-02-03T04:05:06.078Z INFO  uncaught               error=a",
      "    Error: a",
      "    at f (x.ts:1)",
      "    2024 INFO forged",
      "",
    ]);
  });

  test("is coloured only when told so, and then reads the same", () => {
    const one = line("ready", { name: "a b" }, "warn");
    const coloured = formatText(one, "coloured");
    expect(coloured).toContain("\u001b[33mWARN \u001b[0m");
    expect(Bun.stripANSI(coloured)).toBe(formatText(one, "plain"));
  });
});

describe("secrets", () => {
  test.each(["handle", "secret", "password", "authorization", "Authorization", "userPassword", "client-secret", "lock_handle", "secretHash"])(
    "the field %s is redacted in both forms",
    (name) => {
      expect(isSecretField(name)).toBe(true);
      expect(formatJson(line("x", { [name]: "s3cr3t" }))).not.toContain("s3cr3t");
      expect(formatText(line("x", { [name]: "s3cr3t" }), "plain")).toEndWith(`${name}=[redacted]\n`);
    },
  );

  test.each(["token", "handler", "handles", "secretary", "name"])("the field %s is shown", (name) => {
    expect(isSecretField(name)).toBe(false);
    expect(formatJson(line("x", { [name]: 42 }))).toContain(`"${name}":42`);
  });
});
