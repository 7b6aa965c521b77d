/** The version of this executable, set at build time; from source it is read from package.json. */
declare const LOCKD_VERSION: string | undefined;

export async function softwareVersion(): Promise<string> {
  if (typeof LOCKD_VERSION === "string") return LOCKD_VERSION;
  const manifest: unknown = await Bun.file(new URL("../package.json", import.meta.url)).json();
  if (typeof manifest === "object" && manifest !== null && "version" in manifest) return String(manifest.version);
  return "0.0.0";
}
