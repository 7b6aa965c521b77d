import { describe, expect, test } from "bun:test";
import { X509Certificate } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { LockdError } from "../../src/errors.ts";
import { nameInCertificate } from "../../src/security/certificates.ts";
import { createAuthority, issueCertificate } from "../../src/security/x509.ts";

const DAY_MS = 86_400_000;
const nowMs = Date.now();
const authority = createAuthority({ name: "test CA", nowMs, days: 3650 });
const issue = (hosts: readonly string[], days = 30, at = nowMs) => issueCertificate(authority, { name: "db1", hosts, nowMs: at, days });

/** What another implementation says of them, as strictly as it can. */
function openssl(leaf: string, ...more: readonly string[]): string {
  const directory = mkdtempSync(join(tmpdir(), "lockd-x509-"));
  try {
    writeFileSync(join(directory, "ca.pem"), authority.certificatePem);
    writeFileSync(join(directory, "leaf.pem"), leaf);
    const ran = Bun.spawnSync(["openssl", "verify", "-x509_strict", "-CAfile", "ca.pem", ...more, "leaf.pem"], { cwd: directory, stderr: "pipe" });
    return ran.stdout.toString() + ran.stderr.toString();
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

describe("a certificate", () => {
  test("stands up to OpenSSL's strict checks, as a server and as a client", () => {
    const { certificatePem } = issue(["localhost", "127.0.0.1"]);
    for (const purpose of ["sslserver", "sslclient"]) expect(openssl(certificatePem, "-purpose", purpose)).toContain("leaf.pem: OK");
    expect(openssl(certificatePem, "-verify_hostname", "localhost")).toContain("OK");
    expect(openssl(certificatePem, "-verify_hostname", "elsewhere")).toContain("mismatch");
    expect(openssl(certificatePem, "-verify_ip", "127.0.0.1")).toContain("OK");
  });

  test("names the hosts that were asked for and the subject that it is for", () => {
    const certificate = new X509Certificate(issue(["db1.example.org", "*.db.example.org", "192.0.2.7", "::1", "2001:db8::7:0:1", "::ffff:192.0.2.7"]).certificatePem);
    expect(certificate.subjectAltName?.split(", ")).toEqual([
      "DNS:db1.example.org", "DNS:*.db.example.org", "IP Address:192.0.2.7", "IP Address:0:0:0:0:0:0:0:1",
      "IP Address:2001:DB8:0:0:0:7:0:1", "IP Address:0:0:0:0:0:FFFF:C000:207",
    ]);
    expect(nameInCertificate(certificate.raw)).toBe("db1");
    expect(certificate.ca).toBe(false);
  });

  test("with very many hosts is as good", () => {
    const hosts = Array.from({ length: 300 }, (_, index) => `host-${index}.example.org`);
    const { certificatePem } = issue(hosts);
    expect(new X509Certificate(certificatePem).subjectAltName?.split(", ")).toHaveLength(300);
    expect(openssl(certificatePem)).toContain("OK");
  });

  test("without hosts has no list of them", () => {
    const { certificatePem } = issue([]);
    expect(new X509Certificate(certificatePem).subjectAltName).toBeUndefined();
    expect(openssl(certificatePem)).toContain("OK");
  });

  test("is valid from just before now for the days asked for, also past 2049, and not longer than its CA", () => {
    const validity = (days: number): [number, number] => {
      const { validFrom, validTo } = new X509Certificate(issue(["a"], days).certificatePem);
      return [Date.parse(validFrom), Date.parse(validTo)];
    };
    const [from, to] = validity(30);
    expect(nowMs - from).toBeLessThan(10 * 60_000);
    expect(Math.abs(to - nowMs - 30 * DAY_MS)).toBeLessThan(2000);
    expect(Math.abs(validity(100_000)[1] - nowMs - 3650 * DAY_MS)).toBeLessThan(2000);
    const old = createAuthority({ name: "old", nowMs, days: 36_500 });
    expect(new Date(new X509Certificate(old.certificatePem).validTo).getUTCFullYear()).toBeGreaterThan(2050);
  });

  test("has its own key and number each time", () => {
    const [a, b] = [new X509Certificate(issue(["a"]).certificatePem), new X509Certificate(issue(["a"]).certificatePem)];
    expect(a.serialNumber).not.toBe(b.serialNumber);
    expect(a.publicKey.equals(b.publicKey)).toBe(false);
  });
});

describe("a CA", () => {
  const errorOf = (run: () => unknown): unknown => {
    try {
      return run();
    } catch (error) {
      return error instanceof LockdError ? `${error.code}: ${error.message}` : error;
    }
  };
  const options = { name: "x", hosts: ["x"], nowMs, days: 1 };

  test("may sign certificates and is nothing else", () => {
    const certificate = new X509Certificate(authority.certificatePem);
    expect(certificate.ca).toBe(true);
    expect(certificate.verify(certificate.publicKey)).toBe(true);
  });

  test("that another program made works, too", () => {
    const directory = mkdtempSync(join(tmpdir(), "lockd-x509-"));
    const made = Bun.spawnSync(
      ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30", "-subj", "/C=DE/O=Some One/CN=Their CA", "-keyout", "k.pem", "-out", "c.pem"],
      { cwd: directory, stderr: "pipe" },
    );
    expect(made.exitCode).toBe(0);
    const read = (name: string): Promise<string> => Bun.file(join(directory, name)).text();
    return Promise.all([read("c.pem"), read("k.pem")]).then(([certificatePem, keyPem]) => {
      rmSync(directory, { recursive: true, force: true });
      const leaf = new X509Certificate(issueCertificate({ certificatePem, keyPem }, options).certificatePem);
      expect(leaf.checkIssued(new X509Certificate(certificatePem))).toBe(true);
      expect(leaf.verify(new X509Certificate(certificatePem).publicKey)).toBe(true);
    });
  });

  test("whose files do not belong together, are no CA, or have expired, is refused in words", () => {
    const other = createAuthority({ name: "other", nowMs, days: 1 });
    const leaf = issue(["a"]);
    expect(errorOf(() => issueCertificate({ ...authority, keyPem: other.keyPem }, options))).toContain("config: use CA: its key does not belong to its certificate");
    expect(errorOf(() => issueCertificate(leaf, options))).toContain("not that of a CA");
    expect(errorOf(() => issueCertificate({ certificatePem: "x", keyPem: "y" }, options))).toContain("not a certificate and a key");
    expect(errorOf(() => issueCertificate(other, { ...options, nowMs: nowMs + 2 * DAY_MS }))).toContain("has expired");
  });
});
