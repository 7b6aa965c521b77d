/** What went wrong with a file, in words instead of the runtime's own sentence. The only place that knows the system's codes for it. */

const PROBLEMS: Readonly<Record<string, string>> = {
  ENOENT: "no such file",
  ENOTDIR: "a part of the path is not a directory",
  EISDIR: "is a directory",
  EEXIST: "it exists already",
  EACCES: "permission denied",
  EPERM: "not permitted",
  EROFS: "the file system is read-only",
  ENOSPC: "no space is left on the file system",
  EDQUOT: "the disk quota is used up",
  EFBIG: "it is too large for the file system or the limit of file sizes",
  EIO: "the disk reports an error",
  ELOOP: "too many symbolic links",
  ENAMETOOLONG: "the name is too long",
  EMFILE: "too many files are open in this process",
  ENFILE: "too many files are open on this machine",
  ENXIO: "nobody reads the pipe, or the device is not there",
  EBUSY: "it is in use",
  ETXTBSY: "it is being executed",
  ESTALE: "the network file system lost it",
  EINVAL: "the file system does not allow that",
  ENOTSUP: "the file system does not support that",
};

/** The system's code of a thrown error, such as `ENOENT`; null when it has none. */
export const fileErrorCode = (error: unknown): string | null =>
  error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : null;

/** The detail of a message about a file: `no such file`, `permission denied`; a code without words as itself. */
export function fileProblem(error: unknown): string {
  const code = fileErrorCode(error);
  if (code !== null) return PROBLEMS[code] ?? code;
  return error instanceof Error ? error.message : String(error);
}

/** The same about a directory that was to be made or read. */
export function directoryProblem(error: unknown): string {
  const code = fileErrorCode(error);
  if (code === "ENOENT") return "no such directory";
  return code === "EEXIST" ? "a file has that name" : fileProblem(error);
}

/** Whether the error says that nothing of this name is there. */
export const isMissing = (error: unknown): boolean => ["ENOENT", "ENOTDIR"].includes(fileErrorCode(error) ?? "");
